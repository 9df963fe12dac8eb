//! `memtap sessions`: lists the sessions of a server, or ends one.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use recorder::RemoteStore;
use serde_json::{Value, json};
use trace_server::{Address, SessionInfo};

use crate::output::Out;

/// List a server's sessions, or end one
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The server's address: unix:PATH or tcp:HOST:PORT
    #[arg(value_name = "URL")]
    server: Address,
    /// The file with the token of a server on TCP [default: $MEMTAP_TOKEN, or what this user's server wrote]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// End the session with this number: its trace is closed, and says why
    #[arg(long, value_name = "ID", conflicts_with = "json")]
    end: Option<u64>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// What a session does, by its number in the protocol.
fn mode(session: &SessionInfo) -> &'static str {
    match session.mode {
        1 => "writing",
        2 => "reading",
        _ => "none",
    }
}

fn to_json(session: &SessionInfo) -> Value {
    let trace = (session.mode != 0).then_some(&session.specifier);
    json!({
        "session": session.session, "name": session.name, "channels": session.channels, "mode": mode(session),
        "trace": trace,
    })
}

/// A line for people. What clients call themselves and their traces must not write on the terminal what it likes.
fn to_text(session: &SessionInfo) -> String {
    let does = match session.mode {
        0 => "has no trace open".to_owned(),
        _ => format!("{} {}", mode(session), session.specifier.escape_debug()),
    };
    let channels = if session.channels == 1 { "channel" } else { "channels" };
    format!("{} ({}): {does}, {} {channels}", session.session, session.name.escape_debug(), session.channels)
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let store = RemoteStore { address: args.server.clone(), token_file: args.token_file.clone() };
    let client = store.connect()?;
    if let Some(session) = args.end {
        client.end_session(session)?;
        return Ok(ExitCode::SUCCESS);
    }
    let sessions = client.sessions()?;
    let mut out = Out::stdout();
    if args.json {
        let all: Vec<Value> = sessions.iter().map(to_json).collect();
        writeln!(out, "{:#}", Value::from(all))?;
    } else if sessions.is_empty() {
        say!("memtap: the server has no session");
    }
    for session in sessions.iter().filter(|_| !args.json) {
        out.line(&to_text(session))?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_say_stays_on_its_line() {
        let check = |mode, channels, name: &str, specifier: &str, expect: &str| {
            let (name, specifier) = (name.to_owned(), specifier.to_owned());
            assert_eq!(to_text(&SessionInfo { session: 7, channels, mode, name, specifier }), expect);
        };
        check(0, 1, "record", "", "7 (record): has no trace open, 1 channel");
        check(1, 2, "a\n8 (b)", "run\u{1b}[2J", "7 (a\\n8 (b)): writing run\\u{1b}[2J, 2 channels");
    }
}
