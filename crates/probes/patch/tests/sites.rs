//! What a site refuses and what a patch does, on code generated for the test.
#![cfg(not(loom))]

use patch::{
    CallSite, CodeAddr, Encoding, Guard, Progress, Refusal, Site, Tier, finish_patch, near, patch_all,
};

/// `mov eax, imm32; ret` at `offset` of a fresh 64-byte aligned piece of code.
fn function(offset: usize, imm: u32) -> usize {
    let place =
        near::allocate_near(function as *const () as usize, 256).unwrap().next_multiple_of(64) + offset;
    // SAFETY: fresh writable code of this test alone.
    unsafe {
        (place as *mut u8).write(0xb8);
        ((place + 1) as *mut u32).write_unaligned(imm);
        ((place + 5) as *mut u8).write(0xc3);
    }
    place
}

fn mov(imm: u32) -> u64 {
    0xb8 | u64::from(imm) << 8
}

fn call(at: usize) -> u32 {
    // SAFETY: `at` is a function made by `function`, which takes nothing and returns eax.
    unsafe { std::mem::transmute::<usize, extern "C" fn() -> u32>(at)() }
}

#[test]
fn every_offset_in_two_lines_is_patched_whole() {
    for offset in 0..96 {
        let at = function(offset, 1);
        // SAFETY: one mov for another.
        let tier = unsafe { patch::patch(CodeAddr(at), 5, mov(0x7654_3210)) }.unwrap();
        assert_eq!(call(at), 0x7654_3210, "offset {offset}");
        // The opcode stays, so four bytes change: they straddle where they begin in the last three bytes of what a fetch reads.
        let straddles = (at + 1) / patch::FETCH_BYTES != (at + 4) / patch::FETCH_BYTES;
        assert_eq!(tier == Tier::Straddler, straddles, "offset {offset}: {tier:?}");
        // SAFETY: the same mov again.
        assert_eq!(unsafe { patch::patch(CodeAddr(at), 5, mov(0x7654_3210)) }.unwrap(), Tier::Unchanged);
        // SAFETY: reads the byte after the patched instruction, code of this test.
        assert_eq!(unsafe { ((at + 5) as *const u8).read() }, 0xc3);
    }
}

#[test]
fn a_self_jump_guards_where_two_bytes_fit() {
    for split in 1..5 {
        let at = function(64 - split, 7);
        let site = Site::open(CodeAddr(at), 5).unwrap();
        assert_eq!(site.split(), Some(split));
        // SAFETY: `mov eax` for `mov eax`.
        unsafe { site.patch_with(mov(0x0102_0304), Guard::SelfJump) }.unwrap();
        assert_eq!(call(at), 0x0102_0304);
    }
}

#[test]
fn an_asynchronous_patch_goes_through_the_papers_states() {
    let at = function(62, 1);
    // SAFETY: one mov for another.
    assert_eq!(unsafe { patch::start_patch(CodeAddr(at), 5, mov(0xaaaa_5555)) }, Ok(Progress::FirstWait));
    // SAFETY: one mov for another; the loser is told.
    let second = unsafe { patch::patch(CodeAddr(at), 5, mov(3)) }.unwrap_err();
    assert_eq!(second.refusal, Refusal::Busy);
    assert_eq!(finish_patch(CodeAddr(at)), Progress::SecondWait);
    assert_eq!(finish_patch(CodeAddr(at)), Progress::Finished);
    assert_eq!(finish_patch(CodeAddr(at)), Progress::Finished);
    assert_eq!(call(at), 0xaaaa_5555);
    // A patch inside a line is complete at once.
    let inside = function(8, 1);
    // SAFETY: one mov for another.
    assert_eq!(unsafe { patch::start_patch(CodeAddr(inside), 5, mov(9)) }, Ok(Progress::Finished));
    assert_eq!(call(inside), 9);
}

#[test]
fn a_forgotten_patch_is_finished_by_the_thread_that_runs_into_it() {
    let at = function(61, 1);
    // SAFETY: one mov for another.
    unsafe { patch::start_patch(CodeAddr(at), 5, mov(0x1234_5678)) }.unwrap();
    assert_eq!(call(at), 0x1234_5678);
    assert!(patch::trap::traps_waited() > 0);
    // SAFETY: one mov for another; the site is free again.
    unsafe { patch::patch(CodeAddr(at), 5, mov(5)) }.unwrap();
    assert_eq!(call(at), 5);
}

#[test]
fn a_batch_patches_straddlers_and_others_and_reports_each() {
    let places: Vec<usize> = (0..200).map(|i| function(if i % 2 == 0 { 62 } else { 3 }, 1)).collect();
    let sites: Vec<Site> = places.iter().map(|at| Site::open(CodeAddr(*at), 5).unwrap()).collect();
    // SAFETY: one mov for another; the first site is left half patched on purpose.
    unsafe { sites[0].start(mov(0x2a2a_2a2a)) }.unwrap();
    let patches: Vec<_> = sites.iter().enumerate().map(|(i, s)| (*s, mov(0x0101_0000 + i as u32))).collect();
    // SAFETY: one mov for another at each site.
    let results = unsafe { patch_all(&patches) };
    assert_eq!(results[0].unwrap_err().refusal, Refusal::Busy);
    for (i, result) in results.iter().enumerate().skip(1) {
        assert_eq!(*result == Ok(Tier::Straddler), i % 2 == 0, "{i}: {result:?}");
        assert_eq!(call(places[i]), 0x0101_0000 + i as u32);
    }
    assert_eq!(call(places[0]), 0x2a2a_2a2a);
}

#[test]
fn bad_sites_are_refused_with_address_and_reason() {
    let refusal = |addr, len| Site::open(CodeAddr(addr), len).map(|_| ()).unwrap_err().refusal;
    assert_eq!(refusal(0x10, 5), Refusal::NotMapped);
    assert_eq!(refusal(usize::MAX - 2, 5), Refusal::NotMapped);
    let data = 5u64;
    assert_eq!(refusal(&raw const data as usize, 5), Refusal::NotExecutable);
    let at = function(0, 1);
    assert_eq!(refusal(at, 0), Refusal::Length { len_bytes: 0 });
    assert_eq!(refusal(at, 9), Refusal::Length { len_bytes: 9 });
    Site::open(CodeAddr(at), 5).unwrap();
    assert_eq!(refusal(at + 2, 3), Refusal::Overlap { with: at });
    assert_eq!(refusal(at, 4), Refusal::Overlap { with: at });
    assert_eq!(refusal(patch::store::store as *const () as usize, 5), Refusal::InsidePatcher);
    let trapped = function(0, 1);
    // SAFETY: code of this test; never executed.
    unsafe { (trapped as *mut u8).write(0xcc) };
    // SAFETY: refused: what stands there is no instruction of ours.
    let error = unsafe { patch::patch(CodeAddr(trapped), 5, mov(1)) }.unwrap_err();
    assert_eq!(error.refusal, Refusal::ForeignTrap);
    // SAFETY: reads one byte of code of this test.
    assert_eq!(unsafe { (trapped as *const u8).read() }, 0xcc, "a refused patch writes nothing");
    assert!(error.to_string().contains(&format!("{trapped:#x}")), "{error}");
}

#[test]
fn retired_sites_are_refused_and_can_be_opened_afresh() {
    let at = function(0, 1);
    let old = Site::open(CodeAddr(at), 5).unwrap();
    patch::table::retire_range(at, at + 1);
    // SAFETY: refused.
    assert_eq!(unsafe { old.patch(mov(2)) }.unwrap_err().refusal, Refusal::Gone);
    let new = Site::open(CodeAddr(at), 5).unwrap();
    // SAFETY: one mov for another.
    unsafe { new.patch(mov(3)) }.unwrap();
    assert_eq!(call(at), 3);
}

#[test]
fn code_that_lost_the_right_to_be_written_is_told_without_a_change() {
    let rights = libc::PROT_READ | libc::PROT_EXEC;
    // SAFETY: a fresh mapping of this test.
    let at = unsafe {
        libc::mmap(std::ptr::null_mut(), 4096, rights, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    };
    assert_ne!(at, libc::MAP_FAILED);
    assert!(patch::pages::takes_stores(at as usize), "it was not opened");
    let site = Site::open(CodeAddr(at as usize), 5).unwrap();
    assert!(patch::pages::takes_stores(at as usize));
    // SAFETY: the mapping made above.
    assert_eq!(unsafe { libc::mprotect(at, 4096, rights) }, 0);
    assert!(!patch::pages::takes_stores(at as usize));
    assert!(!patch::pages::takes_stores(at as usize + 3));
    assert_eq!(site.bytes(), 0);
}

#[test]
fn a_call_is_switched_by_one_store_at_every_offset_in_both_encodings() {
    let callee = function(0, 77);
    for encoding in [Encoding::OneByte, Encoding::Paper] {
        for offset in 0..70 {
            let place = near::allocate_near(callee, 256).unwrap().next_multiple_of(64) + offset;
            // xor eax, eax; sub rsp, 8; nop5; add rsp, 8; ret
            let code = [0x31, 0xc0, 0x48, 0x83, 0xec, 8, 0x0f, 0x1f, 0x44, 0, 0, 0x48, 0x83, 0xc4, 8, 0xc3];
            // SAFETY: fresh writable code of this test.
            unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), place as *mut u8, code.len()) };
            // SAFETY: the nop is five bytes; eax is an output, flags are dead.
            let site = unsafe { CallSite::prepare(CodeAddr(place + 6), CodeAddr(callee), encoding) }.unwrap();
            for _ in 0..3 {
                assert_eq!((call(place), site.is_active()), (0, false), "{encoding:?} at {offset}");
                site.activate().unwrap();
                assert_eq!((call(place), site.is_active()), (77, true), "{encoding:?} at {offset}");
                site.deactivate().unwrap();
            }
        }
    }
    let far = CallSite::describe(CodeAddr(function(0, 1)), CodeAddr(0x10), Encoding::OneByte).map(|_| ());
    assert_eq!(far.unwrap_err().refusal, Refusal::OutOfReach { target: 0x10 });
}
