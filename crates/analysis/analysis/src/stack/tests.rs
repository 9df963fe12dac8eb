//! Contexts grow and fold as documented; whole programs are in the end-to-end tests.

use symbols::CodeId;

use super::context::{ContextId, Contexts, EnteredBy};

fn sites(contexts: &Contexts, id: ContextId) -> Vec<EnteredBy> {
    contexts.outwards(id).map(|(_, context)| context.entry).collect()
}

#[test]
fn a_context_is_its_caller_and_the_call() {
    let mut contexts = Contexts::default();
    let root = contexts.root(EnteredBy::Begin);
    let a = contexts.child(root, CodeId(1));
    let b = contexts.child(a, CodeId(2));
    assert_eq!(contexts.child(root, CodeId(1)), a);
    assert_ne!(contexts.child(root, CodeId(2)), b);
    assert_eq!(
        sites(&contexts, b),
        [EnteredBy::Call(CodeId(2)), EnteredBy::Call(CodeId(1)), EnteredBy::Begin]
    );
}

#[test]
fn recursion_is_folded_after_some_turns() {
    let mut contexts = Contexts::default();
    let mut id = contexts.root(EnteredBy::Begin);
    for _ in 0..1000 {
        id = contexts.child(id, CodeId(7));
    }
    assert_eq!(contexts.len(), 9);
    assert!(contexts.folded() > 0);
    // Another call goes on from there.
    let other = contexts.child(id, CodeId(8));
    assert_eq!(sites(&contexts, other).len(), 10);
}

#[test]
fn two_calls_that_recurse_have_few_contexts() {
    let mut contexts = Contexts::default();
    let root = contexts.root(EnteredBy::Begin);
    let mut all = vec![root];
    let mut next = 0;
    while let Some(&id) = all.get(next) {
        for site in [1, 2] {
            let child = contexts.child(id, CodeId(site));
            if child.0 as usize == all.len() {
                all.push(child);
            }
        }
        next += 1;
    }
    // Every order of up to eight turns of each.
    assert!(contexts.len() < 50_000, "{}", contexts.len());
}
