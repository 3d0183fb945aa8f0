//! URLs of downloads.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use hyper::Uri;
use percent_encoding::percent_decode_str;

use crate::{Error, Result};

/// A parsed URL.
#[derive(Clone, Debug)]
pub struct Url {
    text: String,
    uri: Uri,
}

impl Url {
    /// Parses an HTTP URL.
    pub fn parse(text: &str) -> Result<Self> {
        let fault = |problem| Error::Url { text: text.to_owned(), problem };
        let uri: Uri = text.parse().map_err(|_| fault("it is not a URL; write https://HOST:PORT/PATH"))?;
        match uri.scheme_str() {
            Some("http" | "https") if uri.host().is_some_and(|host| !host.is_empty()) => {}
            _ => return Err(fault("write http://HOST:PORT/PATH for TCP or https://HOST:PORT/PATH for QUIC")),
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(fault("names and passwords are not sent; leave them out"));
        }
        // The parser accepts any text after the colon.
        let has_port = uri.authority().is_some_and(|authority| authority.as_str().len() > authority.host().len());
        if has_port && uri.port_u16().is_none_or(|port| port == 0) {
            return Err(fault("a port is a number from 1 to 65535"));
        }
        Ok(Self { text: text.to_owned(), uri })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn uri(&self) -> &Uri {
        &self.uri
    }

    pub fn is_quic(&self) -> bool {
        self.uri.scheme_str() == Some("https")
    }

    /// Host name, or address without brackets.
    pub fn host(&self) -> &str {
        self.uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
    }

    pub fn port(&self) -> u16 {
        self.uri.port_u16().unwrap_or(if self.is_quic() { 443 } else { 80 })
    }

    /// File name in the URL's path.
    pub fn file_name(&self) -> Result<String> {
        let last = self.uri.path().rsplit('/').next().unwrap_or_default();
        match percent_decode_str(last).decode_utf8() {
            Ok(name) if !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0']) => {
                Ok(name.into_owned())
            }
            _ => Err(Error::NoFileName(self.text.clone())),
        }
    }

    pub(super) fn at(&self, path: &str) -> Result<Uri> {
        let mut parts = self.uri.clone().into_parts();
        parts.path_and_query = path.parse().ok();
        Uri::from_parts(parts).map_err(|error| Error::Request { url: self.text.clone(), source: error.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_none_is_refused() {
        for (text, port) in
            [("http://h/", 80), ("https://h/", 443), ("http://[::1]/", 80), ("http://[::1]:8080/", 8080)]
        {
            assert_eq!(Url::parse(text).unwrap().port(), port, "{text}");
        }
        for text in
            ["http://h:99999/", "https://h:80x/", "http://h:-1/", "http://h:/", "http://h:0/", "http://[::1]:99999/"]
        {
            assert!(Url::parse(text).unwrap_err().to_string().contains("1 to 65535"), "{text}");
        }
    }

    #[test]
    fn a_url_names_its_file_and_nothing_elsewhere() {
        let name = |text: &str| Url::parse(text).unwrap().file_name();
        assert_eq!(name("http://h/a/b%20c?d").unwrap(), "b c");
        for text in ["http://h/", "http://h", "http://h/a/..", "http://h/%2e%2e", "http://h/..%2fa", "http://h/%00"] {
            assert!(name(text).is_err(), "{text}");
        }
        for text in ["", "file", "ftp://h/a", "//h/a", "http:///a", "http://u:p@h/a"] {
            assert!(Url::parse(text).is_err(), "{text}");
        }
    }
}
