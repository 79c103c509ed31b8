//! Reads the bearer token from a file that is replaced while the process runs.

use std::{
    path::PathBuf,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use http::{HeaderValue, Request, Response, StatusCode, header::AUTHORIZATION};
use kube::{
    client::{AuthError, Body},
    config::AuthInfo,
};
use parking_lot::Mutex;
use tokio::time::Instant;
use tower::Service;

/// How long a token is used before the file is read again; client-go: a minute, less 10 s of leeway
/// (transport/token_source.go).
const REREAD_AFTER: Duration = Duration::from_secs(50);

/// A token file. It is read again when its token is [`REREAD_AFTER`] old, or when the server refused the token with
/// 401.
///
/// If the file can't be read or is empty, the last token stays in use. kube's own reader is not used since it does
/// not trim the token, ignores 401 and does not follow tokio's clock.
pub(super) struct TokenFile {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    header: HeaderValue,
    /// When the file was read, or `None` if it must be read before the next request.
    read_at: Option<Instant>,
}

impl TokenFile {
    /// Opens the token file of `auth`. Returns `None` if kube authenticates requests by another method, which takes
    /// precedence, or if the file can't be read and there is an inline token to use instead.
    pub(super) fn of(auth: &AuthInfo) -> kube::Result<Option<Arc<Self>>> {
        let others = auth.auth_provider.is_some() || auth.username.is_some() && auth.password.is_some();
        let Some(path) =
            auth.token_file.as_ref().filter(|path| !others && !path.is_empty()).map(PathBuf::from)
        else {
            return Ok(None);
        };
        let state = match (read(&path), &auth.token) {
            (Ok(header), _) => State { header, read_at: Some(Instant::now()) },
            // Only kube can read the secret inline token. It uses it if there is no token file.
            (Err(error), Some(_)) => {
                tracing::warn!(%error, "Token file can't be used, using the inline token");
                return Ok(None);
            }
            (Err(error), None) => return Err(kube::Error::Auth(AuthError::ReadTokenFile(error, path))),
        };
        Ok(Some(Arc::new(Self { path, state: Mutex::new(state) })))
    }

    fn header(&self) -> HeaderValue {
        let mut state = self.state.lock();
        if state.read_at.is_none_or(|read_at| read_at.elapsed() >= REREAD_AFTER) {
            match read(&self.path) {
                Ok(header) => state.header = header,
                Err(error) => {
                    tracing::warn!(%error, path = %self.path.display(), "Token file can't be used, keeping the last token");
                }
            }
            state.read_at = Some(Instant::now());
        }
        state.header.clone()
    }

    /// Records that the server refused the token of a request sent at `sent_at`. A token read after that may be
    /// valid.
    fn refused(&self, sent_at: Instant) {
        let mut state = self.state.lock();
        if state.read_at.is_some_and(|read_at| read_at <= sent_at) {
            state.read_at = None;
        }
    }
}

fn read(path: &PathBuf) -> std::io::Result<HeaderValue> {
    let token = std::fs::read_to_string(path)?;
    let unusable = |what| std::io::Error::new(std::io::ErrorKind::InvalidData, what);
    let token =
        Some(token.trim()).filter(|token| !token.is_empty()).ok_or_else(|| unusable("the file is empty"))?;
    let mut header = HeaderValue::from_str(&format!("Bearer {token}"))
        .map_err(|_| unusable("the file contains no token"))?;
    header.set_sensitive(true);
    Ok(header)
}

/// Adds the file's token to requests without credentials.
#[derive(Clone)]
pub(super) struct Layer(Arc<TokenFile>);

impl Layer {
    pub(super) fn new(file: Arc<TokenFile>) -> Self {
        Self(file)
    }
}

impl<S> tower::Layer<S> for Layer {
    type Service = WithToken<S>;

    fn layer(&self, inner: S) -> WithToken<S> {
        WithToken { inner, file: self.0.clone() }
    }
}

/// The service of [`Layer`].
#[derive(Clone)]
pub(super) struct WithToken<S> {
    inner: S,
    file: Arc<TokenFile>,
}

impl<S, B> Service<Request<Body>> for WithToken<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        request.headers_mut().entry(AUTHORIZATION).or_insert_with(|| self.file.header());
        let (file, sent_at) = (self.file.clone(), Instant::now());
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            if matches!(&answer, Ok(response) if response.status() == StatusCode::UNAUTHORIZED) {
                file.refused(sent_at);
            }
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    use http::Method;
    use tower::{Layer as _, ServiceExt};

    use super::*;
    use crate::testing::{Scripted, answer, request};

    /// Sends a request through the file's layer; returns the token it carried.
    async fn carried(file: &Arc<TokenFile>, status: u16) -> String {
        let service = Scripted::new(move |_| answer(status, "{}"));
        let layered = Layer::new(file.clone()).layer(service.clone());
        layered.oneshot(request(Method::GET, "/api")).await.unwrap();
        service.seen()[0].headers[AUTHORIZATION].to_str().unwrap().to_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn a_rotated_token_is_picked_up_within_a_minute_or_when_the_old_one_is_refused() {
        let path = std::env::temp_dir().join(format!("steersman-token-{}", uuid::Uuid::new_v4()));
        std::fs::write(&path, "one\n").unwrap();
        let auth = AuthInfo { token_file: Some(path.display().to_string()), ..AuthInfo::default() };
        let file = TokenFile::of(&auth).unwrap().unwrap();
        assert_eq!(carried(&file, 200).await, "Bearer one");

        std::fs::write(&path, "two\n").unwrap();
        tokio::time::advance(REREAD_AFTER - Duration::from_millis(1)).await;
        assert_eq!(carried(&file, 200).await, "Bearer one");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(carried(&file, 200).await, "Bearer two");

        std::fs::write(&path, "three").unwrap();
        assert_eq!(carried(&file, 401).await, "Bearer two");
        assert_eq!(carried(&file, 200).await, "Bearer three");

        for unusable in ["", "a\nb"] {
            std::fs::write(&path, unusable).unwrap();
            tokio::time::advance(REREAD_AFTER).await;
            assert_eq!(carried(&file, 200).await, "Bearer three", "a file with {unusable:?}");
        }
        std::fs::remove_file(&path).unwrap();
        tokio::time::advance(REREAD_AFTER).await;
        assert_eq!(carried(&file, 200).await, "Bearer three");
        assert!(TokenFile::of(&auth).is_err(), "at the start, a token must be there");
    }

    #[tokio::test]
    async fn credentials_that_a_request_brings_are_kept() {
        let path = std::env::temp_dir().join(format!("steersman-token-{}", uuid::Uuid::new_v4()));
        std::fs::write(&path, "file").unwrap();
        let auth = AuthInfo { token_file: Some(path.display().to_string()), ..AuthInfo::default() };
        let service = Scripted::in_turn([]);
        let layered = Layer::new(TokenFile::of(&auth).unwrap().unwrap()).layer(service.clone());
        let mut own = request(Method::GET, "/api");
        own.headers_mut().insert(AUTHORIZATION, HeaderValue::from_static("Bearer own"));
        layered.oneshot(own).await.unwrap();
        assert_eq!(service.seen()[0].headers[AUTHORIZATION], "Bearer own");
        std::fs::remove_file(&path).unwrap();
    }
}
