//! All objects at one moment, for [`SavedSnapshot`](crate::store::SavedSnapshot).

use http::{Response, StatusCode};

use super::answer::{answer, refuse};
use super::body::ResponseBody;
use super::server::{ApiServer, refusal_of};
use crate::access::{self, Attributes, Identity, Target};
use crate::codec::Format;
use crate::store::Saved;

/// The path of the request.
pub(super) const PATH: &str = "/debug/snapshot";
/// The media type of lines of JSON.
const LINES: &str = "application/x-ndjson";

impl ApiServer {
    /// All objects. The right to get the path is not enough, since roles for monitoring may allow all paths: the user must also be
    /// allowed to get every resource.
    pub(super) async fn snapshot_answer(&self, who: &Identity) -> Response<ResponseBody> {
        let everything = Target::Resource {
            group: "*".to_owned(),
            resource: "*".to_owned(),
            subresource: String::new(),
            namespace: String::new(),
            name: String::new(),
        };
        let wanted = Attributes::new("get", everything);
        if !self.is_open() && !access::is_allowed(self.store(), who, &wanted) {
            return refuse(&wanted.refusal(who), Format::Json);
        }
        let mark = self.store().mark();
        let saved = Saved::of(self.store());
        match self.store().settled_since(mark).await {
            Ok(()) => {
                let lines = futures::stream::iter(saved.map(|line| Ok(vec![line])));
                answer(StatusCode::OK, LINES, ResponseBody::stream(lines))
            }
            Err(why) => refuse(&refusal_of(why), Format::Json),
        }
    }
}
