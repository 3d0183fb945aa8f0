//! Invalid and unusual inputs, one per line of `bad_input.tsv`: arguments, exit status and the complete standard error.
//!
//! To regenerate the table from the command's current output, and then review it: BLESS=1 cargo test --test bad_input
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

const TABLE: &str = "tests/bad_input.tsv";
const COMMAND: &str = env!("CARGO_BIN_EXE_bbrlab");

/// One line: `STATUS<TAB>COMMAND LINE<TAB>STANDARD ERROR`, or `file<TAB>NAME<TAB>TEXT`, or a comment.
enum Line {
    Comment(String),
    File { name: String, text: String },
    Case { status: i32, line: String, says: String },
}

fn read(table: &str) -> Vec<Line> {
    let line = |line: &str| {
        let cells: Vec<&str> = line.split('\t').collect();
        match cells.as_slice() {
            ["file", name, text] => Line::File { name: (*name).to_owned(), text: (*text).to_owned() },
            [status, command, says] => Line::Case {
                status: status.parse().unwrap_or_else(|_| panic!("{line:?}: no status")),
                line: (*command).to_owned(),
                says: (*says).to_owned(),
            },
            _ if line.is_empty() || line.starts_with('#') => Line::Comment(line.to_owned()),
            _ => panic!("{line:?}: three cells to a line"),
        }
    };
    table.lines().map(line).collect()
}

/// A directory with the table's files, removed on drop.
struct Dir(PathBuf);

impl Dir {
    fn new(nth: usize, lines: &[Line]) -> Self {
        let dir = std::env::temp_dir().join(format!("bbrlab-bad-input-{}-{nth}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        for line in lines {
            if let Line::File { name, text } = line {
                fs::write(dir.join(name), unescaped(text)).unwrap();
            }
        }
        Self(dir)
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path()).collect();
        all.sort();
        all
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Decodes `\n`, `\t` and `\xHH`.
fn unescaped(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text.bytes());
    while let Some(byte) = rest.next() {
        let escaped = if byte == b'\\' { rest.next() } else { None };
        match escaped {
            None => bytes.push(byte),
            Some(b'n') => bytes.push(b'\n'),
            Some(b't') => bytes.push(b'\t'),
            Some(b'x') => {
                let hex: Vec<u8> = rest.by_ref().take(2).collect();
                bytes.push(u8::from_str_radix(std::str::from_utf8(&hex).unwrap(), 16).unwrap());
            }
            Some(other) => bytes.push(other),
        }
    }
    bytes
}

/// Status and standard error of a shell command line in which `bbrlab` is the command.
fn run(dir: &Path, line: &str) -> (i32, String) {
    let script = format!("bbrlab() {{ \"$BBRLAB\" \"$@\"; }}\n{line}");
    let mut shell = Command::new("bash");
    shell.current_dir(dir).args(["-c", &script]).env_clear();
    shell.env("BBRLAB", COMMAND).env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let done = shell.stdin(Stdio::null()).stdout(Stdio::null()).output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    let said = said.replace(&dir.display().to_string(), "DIR").replace('\t', "\\t");
    (done.status.code().unwrap_or(-1), said.trim_end_matches('\n').replace('\n', "\\n"))
}

/// Without its feature `bbrlab tune` has no arguments to refuse.
fn is_left_out(line: &str) -> bool {
    cfg!(not(feature = "tune")) && line.starts_with("bbrlab tune")
}

#[test]
fn every_bad_input_ends_in_the_status_and_the_line_that_the_table_says() {
    let text = fs::read_to_string(TABLE).unwrap();
    let lines = read(&text);
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    let worker = |nth: usize| {
        let dir = Dir::new(nth, &lines);
        let before = dir.files();
        let mut found = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(line) = lines.get(at) else { return found };
            let Line::Case { line, .. } = line else { continue };
            if is_left_out(line) {
                continue;
            }
            let mut one = run(&dir.0, line);
            for left in dir.files().iter().filter(|file| !before.contains(file)) {
                one.1 += &format!(" [left: {}]", left.file_name().unwrap().display());
                let _ = if left.is_dir() { fs::remove_dir_all(left) } else { fs::remove_file(left) };
            }
            found.push((at, one));
        }
    };
    let mut found: Vec<(usize, (i32, String))> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|nth| scope.spawn(move || worker(nth))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    found.sort_by_key(|(at, _)| *at);
    if std::env::var_os("BLESS").is_some() {
        bless(&lines, &found);
    }
    let mut wrong = String::new();
    for (at, (status, said)) in &found {
        let Line::Case { status: expected, line, says } = &lines[*at] else { continue };
        if (expected, says) != (status, said) {
            wrong += &format!("line {}: {line}\n  says   {status}: {said}\n  not    {expected}: {says}\n", at + 1);
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// The table is the same for every build; this case is not.
#[cfg(not(feature = "quic"))]
#[test]
fn a_build_without_quic_says_so() {
    let dir = Dir::new(usize::MAX, &[]);
    for line in [
        "bbrlab run --duration 100ms --on quic",
        "bbrlab conform s2n:bbr",
        "bbrlab reproduce --on quic",
        "bbrlab serve --memory 1MB",
        "bbrlab get http://127.0.0.1:8080/file",
    ] {
        let (status, said) = run(&dir.0, line);
        assert!(status == 2 && said.contains("this build has no QUIC; build with the feature quic"), "{line}: {said}");
    }
}

/// Every refusal is one line, and the table has enough of them.
#[test]
fn the_table_holds_one_line_an_input() {
    let lines = read(&fs::read_to_string(TABLE).unwrap());
    let mut cases = 0;
    for line in &lines {
        let Line::Case { status, line, says } = line else { continue };
        cases += 1;
        assert!(!says.contains("[left: "), "{line}: {says}");
        if line.ends_with("2>&-") {
            assert!(says.is_empty(), "{line}: {says}");
            continue;
        }
        assert!(*status != 2 || (says.starts_with("bbrlab: ") && !says.contains("\\n")), "{line}: {says}");
    }
    assert!(cases >= 400, "{cases} inputs");
}

fn bless(lines: &[Line], found: &[(usize, (i32, String))]) {
    let mut table = String::new();
    for (at, line) in lines.iter().enumerate() {
        table += &match line {
            Line::Comment(text) => format!("{text}\n"),
            Line::File { name, text } => format!("file\t{name}\t{text}\n"),
            Line::Case { status, line, says } => {
                // A case that this build did not run keeps its line.
                let kept = (*status, says.clone());
                let (status, said) = found.iter().find(|(other, _)| *other == at).map_or(&kept, |(_, found)| found);
                format!("{status}\t{line}\t{said}\n")
            }
        };
    }
    fs::write(TABLE, table).unwrap();
}
