//! Content of the server: maps a request to a response, for both TCP and QUIC.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use bbrlab_sim::scenario::Volume;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use hyper::header::{
    ACCEPT_RANGES, ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderMap, HeaderValue, IF_RANGE,
    RANGE, SERVER,
};
use hyper::{Method, Response, StatusCode, http};
use nix::errno::Errno;
use nix::libc;
use percent_encoding::percent_decode_str;

use super::body::Body;
use super::sender::{self, Sender};

/// Prefix of the paths of generated content.
const BYTES: &str = "/bytes/";
/// File that represents a directory.
const INDEX: &str = "index.html";

/// The served content.
#[derive(Debug)]
pub struct Site {
    root: Option<Dir>,
    memory: u64,
}

/// Content found, before a range of it is selected.
struct Found {
    content: Content,
    length: u64,
    kind: &'static str,
}

enum Content {
    Pattern,
    File(File),
}

impl Site {
    /// Serves the files of a directory, and generated content up to the given size.
    pub fn new(root: Option<&Path>, memory: u64) -> io::Result<Self> {
        let root = root.map(|root| Dir::open_ambient_dir(root, ambient_authority())).transpose()?;
        Ok(Self { root, memory })
    }

    /// Answers a request; `sender` returns the statistics of this connection's sender.
    pub async fn answer(&self, request: &http::request::Parts, sender: impl Fn() -> Sender) -> Response<Body> {
        let mut answer = match request.method {
            Method::GET | Method::HEAD => match self.find(request.uri.path(), sender).await {
                Ok(Ok(found)) => content(found, &request.headers),
                Ok(Err(report)) => {
                    let mut answer = text(StatusCode::OK, report);
                    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                    answer
                }
                Err(status) => plain(status),
            },
            _ => {
                let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED);
                answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
                answer
            }
        };
        answer.headers_mut().insert(SERVER, HeaderValue::from_static(sender::SERVER));
        answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if request.method == Method::HEAD {
            *answer.body_mut() = Body::text("");
        }
        answer
    }

    /// Resolves a path to content, or to a report, which supports no ranges.
    async fn find(&self, path: &str, sender: impl Fn() -> Sender) -> Result<Result<Found, String>, StatusCode> {
        if path == sender::PATH {
            return serde_json::to_string(&sender()).map(Err).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR);
        }
        if let Some(size) = path.strip_prefix(BYTES).filter(|_| self.memory > 0) {
            let size = size.parse::<Volume>().map_err(|_| StatusCode::NOT_FOUND)?.0;
            if size > self.memory {
                return Err(StatusCode::NOT_FOUND);
            }
            let kind = "application/octet-stream";
            return Ok(Ok(Found { content: Content::Pattern, length: size, kind }));
        }
        let root = self.root.as_ref().ok_or(StatusCode::NOT_FOUND)?;
        let path = inside(path).ok_or(StatusCode::NOT_FOUND)?;
        let root = root.try_clone().map_err(|error| status(&error))?;
        let opened = tokio::task::spawn_blocking(move || open(&root, path)).await;
        opened.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?.map_err(|error| status(&error)).map(Ok)
    }
}

/// The file in the root that a request's path names, and whether only a directory fits, as the path ends in a slash; none if it can
/// only be outside.
fn inside(path: &str) -> Option<(PathBuf, bool)> {
    let bytes: Vec<u8> = percent_decode_str(path).collect();
    let mut inside = PathBuf::from(".");
    for part in bytes.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => return None,
            part if part.contains(&0) => return None,
            part => inside.push(OsStr::from_bytes(part)),
        }
    }
    Some((inside, bytes.ends_with(b"/")))
}

/// Opens a file. `Dir` refuses a link that leads out of the root, whatever happens to the tree meanwhile.
fn open(root: &Dir, (mut path, is_directory): (PathBuf, bool)) -> io::Result<Found> {
    let mut options = OpenOptions::new();
    // Opening a pipe would block until someone writes to it.
    options.read(true).custom_flags(libc::O_NONBLOCK);
    let mut file = root.open_with(&path, &options)?.into_std();
    let mut meta = file.metadata()?;
    let was_directory = meta.is_dir();
    if was_directory {
        path.push(INDEX);
        file = root.open_with(&path, &options)?.into_std();
        meta = file.metadata()?;
    }
    if !meta.is_file() || (is_directory && !was_directory) {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(Found { content: Content::File(file), length: meta.len(), kind: kind(&path) })
}

/// MIME type of a file.
fn kind(path: &Path) -> &'static str {
    match path.extension().and_then(OsStr::to_str) {
        Some("html") => "text/html; charset=utf-8",
        Some("txt" | "md" | "log" | "toml") => "text/plain; charset=utf-8",
        Some("css") => "text/css",
        Some("js") => "text/javascript",
        Some("json") => "application/json",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("wasm") => "application/wasm",
        _ => "application/octet-stream",
    }
}

/// Status for an error. It never reveals to a client whether a file outside the root, or an unreadable one, exists.
fn status(error: &io::Error) -> StatusCode {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::NOT_FOUND,
    }
}

/// Requested range of bytes; none if the whole content is requested.
fn range(found: &Found, headers: &HeaderMap) -> Result<Option<(u64, u64)>, ()> {
    let Some(asked) = headers.get(RANGE).and_then(|asked| asked.to_str().ok()) else { return Ok(None) };
    // The client wants the rest of a version, but responses of this server name none.
    if headers.contains_key(IF_RANGE) {
        return Ok(None);
    }
    let Ok(ranges) = http_range_header::parse_range_header(asked) else { return Ok(None) };
    match ranges.validate(found.length).map_err(|_| ())?.as_slice() {
        [one] => Ok(Some((*one.start(), one.end() - one.start() + 1))),
        _ => Ok(None), // several ranges are answered with the whole content, as the protocol allows
    }
}

fn content(found: Found, headers: &HeaderMap) -> Response<Body> {
    let Ok(part) = range(&found, headers) else {
        let mut answer = plain(StatusCode::RANGE_NOT_SATISFIABLE);
        insert(&mut answer, CONTENT_RANGE, &format!("bytes */{}", found.length));
        return answer;
    };
    let (from, length) = part.unwrap_or((0, found.length));
    let body = match found.content {
        Content::Pattern => Body::pattern(from, length),
        Content::File(mut file) => {
            if file.seek(SeekFrom::Start(from)).is_err() {
                return plain(StatusCode::INTERNAL_SERVER_ERROR);
            }
            Body::file(file.into(), length)
        }
    };
    let mut answer = Response::new(body);
    if part.is_some() {
        *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
        insert(&mut answer, CONTENT_RANGE, &format!("bytes {from}-{}/{}", from + length - 1, found.length));
    }
    insert(&mut answer, CONTENT_LENGTH, &length.to_string());
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(found.kind));
    answer.headers_mut().insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    answer
}

fn insert(answer: &mut Response<Body>, name: http::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
}

fn text(status: StatusCode, text: String) -> Response<Body> {
    let mut answer = Response::new(Body::text(""));
    *answer.status_mut() = status;
    insert(&mut answer, CONTENT_LENGTH, &text.len().to_string());
    *answer.body_mut() = Body::text(text);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    answer
}

fn plain(status: StatusCode) -> Response<Body> {
    text(status, format!("{status}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_leads_out_is_none() {
        for path in ["/..", "/a/../../b", "/%2e%2e/x", "/..%2fx", "/a%2f%2e./x/%2E%2E", "/a%00b"] {
            assert_eq!(inside(path), None, "{path}");
        }
        for (path, file) in
            [("/a/b", "./a/b"), ("//a/./b", "./a/b"), ("/", "."), ("/%252e%252e", "./%2e%2e"), ("/...", "./...")]
        {
            assert_eq!(inside(path), Some((PathBuf::from(file), path == "/")), "{path}");
        }
    }

    #[test]
    fn a_file_is_no_directory() {
        let folder = tempdir();
        std::fs::write(folder.join(INDEX), "whole").unwrap();
        let root = Dir::open_ambient_dir(&folder, ambient_authority()).unwrap();
        let found = |path: &str| open(&root, inside(path).unwrap()).map(|found| found.length);
        assert_eq!((found("/").unwrap(), found("/index.html").unwrap()), (5, 5));
        assert_eq!(found("/index.html/").map_err(|error| error.kind()), Err(io::ErrorKind::NotFound));
        std::fs::remove_dir_all(folder).unwrap();
    }

    fn tempdir() -> PathBuf {
        let folder = std::env::temp_dir().join(format!("bbrlab-site-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }
}
