//! The bearer token that is a file, and is replaced while we run.

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

/// How long a token that was read is used; client-go: a minute, less 10 s of leeway (transport/token_source.go).
const REREAD_AFTER: Duration = Duration::from_secs(50);

/// A token file, read again when its token is [`REREAD_AFTER`] old or was refused with 401.
///
/// While the file can't be read or is empty, the last token is used. kube's own reader neither trims the token nor
/// heeds 401, nor follows tokio's clock.
pub(super) struct TokenFile {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    header: HeaderValue,
    /// When the file was read; `None` if it must be read before the token is used again.
    read_at: Option<Instant>,
}

impl TokenFile {
    /// The token file of `auth`, if it is what requests are authenticated by: other means of kube's go first, except
    /// for an inline token, which stands in only until the file can be read.
    pub(super) fn of(auth: &AuthInfo) -> kube::Result<Option<Arc<Self>>> {
        let others = auth.auth_provider.is_some() || auth.username.is_some() && auth.password.is_some();
        let Some(path) =
            auth.token_file.as_ref().filter(|path| !others && !path.is_empty()).map(PathBuf::from)
        else {
            return Ok(None);
        };
        let state = match (read(&path), &auth.token) {
            (Ok(header), _) => State { header, read_at: Some(Instant::now()) },
            // Only kube can look into the secret; it does so for requests once the file is out of the way.
            (Err(error), Some(_)) => {
                tracing::warn!(%error, "Token file can't be used, the inline token stands");
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

    /// A request sent at `sent_at` was refused. A token read since then may well be good.
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
    let mut header =
        HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| unusable("the file holds no token"))?;
    header.set_sensitive(true);
    Ok(header)
}

/// Puts the file's token on requests that carry no credentials yet.
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
