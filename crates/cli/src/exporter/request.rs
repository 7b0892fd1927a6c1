//! One request, as bytes, and what it is answered.

use haltwise_document::openmetrics::Format;

/// The largest head of a request, in bytes.
pub(super) const LONGEST: usize = 8 << 10;

const HEADERS: usize = 48;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// Metrics, with their text or without (`HEAD`).
    Metrics {
        format: Format,
        with_body: bool,
    },
    Index,
    /// Nothing that is answered: the status that says why.
    Refused(&'static str),
}

const MALFORMED: &str = "400 Bad Request";
/// Its host is not this one: a page of another site asks by way of a browser.
const FOREIGN: &str = "403 Forbidden";
const NOT_FOUND: &str = "404 Not Found";
/// Only reading is possible.
const METHOD: &str = "405 Method Not Allowed";
/// Its head is longer than any that is needed, or has a header too many.
const TOO_LONG: &str = "431 Request Header Fields Too Large";

/// Request in these bytes; `None` if the rest has yet to come.
pub(super) fn read(bytes: &[u8]) -> Option<Asked> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => Some(asked(&request)),
        Ok(httparse::Status::Partial) if bytes.len() < LONGEST => None,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            Some(Asked::Refused(TOO_LONG))
        }
        Err(_) => Some(Asked::Refused(MALFORMED)),
    }
}

fn asked(request: &httparse::Request<'_, '_>) -> Asked {
    let header = |name: &str| {
        let mut all = request.headers.iter();
        let found = all.find(|header| header.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(found.value).ok()
    };
    if header("host").is_some_and(|host| !is_here(host)) {
        return Asked::Refused(FOREIGN);
    }
    let with_body = match request.method {
        Some("GET") => true,
        Some("HEAD") => false,
        _ => return Asked::Refused(METHOD),
    };
    let path = request.path.unwrap_or_default();
    match path.split('?').next() {
        Some("/metrics") => {
            let wants = |accept: &str| accept.contains("application/openmetrics-text");
            let format = if header("accept").is_some_and(wants) {
                Format::OpenMetrics
            } else {
                Format::Prometheus
            };
            Asked::Metrics { format, with_body }
        }
        Some("/") => Asked::Index,
        _ => Asked::Refused(NOT_FOUND),
    }
}

fn is_here(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|c| c.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = |it: std::net::IpAddr| it.is_loopback();
    name.is_empty()
        || name.eq_ignore_ascii_case("localhost")
        || address.parse().is_ok_and(is_loopback)
}

pub(super) fn answer(asked: Asked, metrics: impl FnOnce(Format) -> String) -> Vec<u8> {
    const PLAIN: &str = "text/plain; charset=utf-8";
    let (status, kind, text, with_body) = match asked {
        Asked::Metrics { format, with_body } => {
            ("200 OK", format.media_type(), metrics(format), with_body)
        }
        Asked::Index => ("200 OK", PLAIN, "haltwise: see /metrics\n".to_owned(), true),
        Asked::Refused(why) => (why, PLAIN, format!("{why}\n"), true),
    };
    let allow = if asked == Asked::Refused(METHOD) {
        "Allow: GET, HEAD\r\n"
    } else {
        ""
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{allow}Cache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
        text.len()
    );
    let mut bytes = head.into_bytes();
    if with_body {
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}

#[cfg(test)]
mod test {
    use proptest::prelude::*;

    use super::*;

    fn asks(text: &str) -> Option<Asked> {
        read(text.as_bytes())
    }

    #[test]
    fn what_is_asked_for() {
        let metrics = |format| Asked::Metrics {
            format,
            with_body: true,
        };
        let get = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9477\r\n";
        assert_eq!(asks(get), None);
        assert_eq!(
            asks(&format!("{get}\r\n")),
            Some(metrics(Format::Prometheus))
        );
        let open = "Accept: application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1\r\n\r\n";
        assert_eq!(
            asks(&format!("{get}{open}")),
            Some(metrics(Format::OpenMetrics))
        );
        assert_eq!(asks("GET / HTTP/1.0\r\n\r\n"), Some(Asked::Index));
        for (text, why) in [
            ("GET /x HTTP/1.1\r\n\r\n", NOT_FOUND),
            ("POST /metrics HTTP/1.1\r\n\r\n", METHOD),
            (
                "GET /metrics HTTP/1.1\r\nHost: evil.example:9477\r\n\r\n",
                FOREIGN,
            ),
            ("nonsense\r\n\r\n", MALFORMED),
        ] {
            assert_eq!(asks(text), Some(Asked::Refused(why)), "{text}");
        }
        let long = format!("{get}X: {}", "x".repeat(LONGEST));
        assert_eq!(asks(&long), Some(Asked::Refused(TOO_LONG)));
        let many = format!("{get}{}\r\n", "X: 1\r\n".repeat(HEADERS + 1));
        assert_eq!(asks(&many), Some(Asked::Refused(TOO_LONG)));
    }

    #[test]
    fn hosts_that_are_this_one() {
        for host in [
            "localhost",
            "127.0.0.1:1",
            "[::1]:9477",
            "LOCALHOST:80",
            "127.1.2.3",
            "",
        ] {
            assert!(is_here(host), "{host}");
        }
        for host in "example.com 127.0.0.1.example.com:80 10.0.0.1 [::2]:80".split(' ') {
            assert!(!is_here(host), "{host}");
        }
    }

    proptest! {
        /// Whatever comes, an answer has the length that it says, and only `GET /metrics` shows metrics.
        #[test]
        fn an_answer_is_as_long_as_it_says(bytes in prop::collection::vec(any::<u8>(), 0..300), get in any::<bool>()) {
            let mut request = if get { b"GET /metrics HTTP/1.1\r\n".to_vec() } else { Vec::new() };
            request.extend(bytes);
            if let Some(asked) = read(&request) {
                let answer = String::from_utf8(answer(asked, |_| "secret 1\n".to_owned())).unwrap();
                let (head, body) = answer.split_once("\r\n\r\n").unwrap();
                let said = format!("Content-Length: {}\r\n", body.len());
                let is_head = matches!(asked, Asked::Metrics { with_body: false, .. });
                prop_assert!(head.contains(&said) || is_head);
                let shows = matches!(asked, Asked::Metrics { with_body: true, .. });
                prop_assert_eq!(body.contains("secret"), shows);
            }
        }
    }
}
