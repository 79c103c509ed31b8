//! Health checks in the format of the API server's `/readyz`.

use std::fmt::Write;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::slis::Slis;

/// A named health check.
pub(crate) struct Check {
    /// The check's name, in one word: its path below `/readyz`.
    pub name: String,
    /// The check. Must return at once. The error says in one line what is wrong.
    pub check: Box<dyn Fn() -> Result<(), String> + Send + Sync>,
}

/// A list of checks that are reported together, in this order.
pub(crate) struct Checks(Vec<Check>);

impl Check {
    /// Creates a check.
    pub(crate) fn new(
        name: impl Into<String>,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), check: Box::new(check) }
    }
}

impl Checks {
    /// These checks, after the check `ping`, which always passes.
    pub(crate) fn new(checks: impl IntoIterator<Item = Check>) -> Self {
        Self([Check::new("ping", || Ok(()))].into_iter().chain(checks).collect())
    }

    /// Runs all checks but the `excluded` ones. Returns the report, and whether all passed.
    fn report(&self, name: &str, excluded: &[&str], reasons: Reasons, slis: &Slis) -> (String, bool) {
        let (mut report, mut well) = (String::new(), true);
        let endpoint = name;
        for Check { name, check } in &self.0 {
            if excluded.contains(&&**name) {
                // Writing to a string does not fail.
                let _ = writeln!(report, "[+]{name} excluded: ok");
                continue;
            }
            let result = check();
            slis.observe(name, endpoint, &result);
            let _ = match result {
                Ok(()) => writeln!(report, "[+]{name} ok"),
                Err(why) => {
                    well = false;
                    let why = match reasons {
                        Reasons::Shown => &*why,
                        Reasons::Withheld => "reason withheld",
                    };
                    writeln!(report, "[-]{name} failed: {why}")
                }
            };
        }
        for unknown in excluded.iter().filter(|name| !self.0.iter().any(|check| check.name == **name)) {
            let _ =
                writeln!(report, "warn: some health checks cannot be excluded: no matches for {unknown:?}");
        }
        let _ = writeln!(report, "{name} check {}", if well { "passed" } else { "failed" });
        (report, well)
    }
}

/// Whether the report of all checks has the reasons of those that fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reasons {
    /// The report has the reasons.
    Shown,
    /// As upstream: any client may read the report, and reasons name objects. The path of a single check has its reason.
    Withheld,
}

/// The routes `/name`, with `?verbose` and `?exclude=check`, and `/name/check` for each check.
pub(crate) fn routes(name: &'static str, checks: Arc<Checks>, reasons: Reasons, slis: Slis) -> Router {
    let all = get(move |State(checks): State<Arc<Checks>>, RawQuery(query): RawQuery| async move {
        let query = query.unwrap_or_default();
        let parts: Vec<_> = query.split('&').map(|part| part.split_once('=').unwrap_or((part, ""))).collect();
        let excluded: Vec<_> =
            parts.iter().filter(|(key, _)| *key == "exclude").map(|(_, name)| *name).collect();
        let (report, well) = checks.report(name, &excluded, reasons, &slis);
        match (well, parts.iter().any(|(key, _)| *key == "verbose")) {
            (false, _) => answer(StatusCode::INTERNAL_SERVER_ERROR, report),
            (true, true) => answer(StatusCode::OK, report),
            (true, false) => answer(StatusCode::OK, "ok".to_owned()),
        }
    });
    let one = get(async |State(checks): State<Arc<Checks>>, Path(wanted): Path<String>| {
        match checks.0.iter().find(|check| check.name == wanted).map(|check| (check.check)()) {
            Some(Ok(())) => answer(StatusCode::OK, "ok".to_owned()),
            Some(Err(why)) => {
                answer(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {why}\n"))
            }
            None => answer(StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
        }
    });
    Router::new().route(&format!("/{name}"), all).route(&format!("/{name}/{{check}}"), one).with_state(checks)
}

fn answer(status: StatusCode, text: String) -> Response {
    let headers =
        [(header::CONTENT_TYPE, "text/plain; charset=utf-8"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (status, headers, text).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

    async fn asked(path: &str) -> (u16, String) {
        asked_of(path, Reasons::Shown).await
    }

    async fn asked_of(path: &str, reasons: Reasons) -> (u16, String) {
        let sick = || Err("worker 2 of job has been on ns/pi for 70s".to_owned());
        let checks = Checks::new([Check::new("caches", || Ok(())), Check::new("job-controller", sick)]);
        let request = axum::http::Request::get(path).body(Body::empty()).unwrap();
        let response =
            routes("readyz", Arc::new(checks), reasons, Slis::new().unwrap()).oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_failed_check_is_reported_with_the_reason() {
        let report = "[+]ping ok\n[+]caches ok\n[-]job-controller failed: worker 2 of job has been on ns/pi for 70s\n\
                      readyz check failed\n";
        assert_eq!(asked("/readyz").await, (500, report.to_owned()));
        assert_eq!(asked("/readyz?verbose").await, (500, report.to_owned()));
    }

    #[tokio::test]
    async fn reasons_can_be_withheld() {
        let report =
            "[+]ping ok\n[+]caches ok\n[-]job-controller failed: reason withheld\nreadyz check failed\n";
        assert_eq!(asked_of("/readyz", Reasons::Withheld).await, (500, report.to_owned()));
        assert!(asked_of("/readyz/job-controller", Reasons::Withheld).await.1.contains("on ns/pi for 70s"));
    }

    #[tokio::test]
    async fn a_check_can_be_excluded() {
        assert_eq!(asked("/readyz?exclude=job-controller").await, (200, "ok".to_owned()));
        let (status, report) = asked("/readyz?verbose=1&exclude=job-controller&exclude=foo").await;
        assert_eq!(
            (status, &*report),
            (
                200,
                "[+]ping ok\n[+]caches ok\n[+]job-controller excluded: ok\n\
                 warn: some health checks cannot be excluded: no matches for \"foo\"\nreadyz check passed\n"
            )
        );
    }

    #[tokio::test]
    async fn each_check_has_its_own_path() {
        assert_eq!(asked("/readyz/caches").await, (200, "ok".to_owned()));
        let (status, why) = asked("/readyz/job-controller").await;
        assert_eq!(status, 500);
        assert!(why.contains("on ns/pi for 70s"), "{why}");
        assert_eq!(asked("/readyz/foo").await.0, 404);
    }
}
