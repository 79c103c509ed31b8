//! Impersonation: the headers by which a client acts as another user. Pure.

use std::collections::BTreeMap;

use http::HeaderMap;
use percent_encoding::percent_decode_str;

use super::identity::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, account_of_user, groups_of_accounts};
use super::{Attributes, Identity, Target};
use crate::names;
use crate::refusal::{Refusal, Result};

const EXTRA: &str = "impersonate-extra-";

/// The user that a client wants to act as, as the headers of its request name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Impersonation(Identity);

impl Impersonation {
    /// Reads the headers. Returns `None` if the client acts as itself.
    ///
    /// # Errors
    /// The headers name groups, a uid or extra values but no user, or a value is not UTF-8. A value that can't be read must
    /// not count as absent: a gateway that impersonates its users would then act with its own rights.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Option<Self>> {
        let all = |name: &str| -> Result<Vec<String>> {
            let values = headers.get_all(name).iter().map(|value| std::str::from_utf8(value.as_bytes()));
            let values = values.map(|value| value.map(str::to_owned)).collect::<std::result::Result<_, _>>();
            values.map_err(|_| Refusal::bad_request(format!("the value of {name} is not UTF-8")))
        };
        let first = |name: &str| all(name).map(|values| values.into_iter().next().unwrap_or_default());
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for name in headers.keys().map(http::HeaderName::as_str) {
            let Some(key) = name.strip_prefix(EXTRA) else { continue };
            // A key that does not decode stands for itself.
            let key = decoded(key).unwrap_or_else(|| key.to_owned());
            extra.entry(key).or_default().extend(all(name)?);
        }
        let (user, uid) = (first("impersonate-user")?, first("impersonate-uid")?);
        let wanted = Identity { user, uid, groups: all("impersonate-group")?, extra };
        if !wanted.user.is_empty() {
            return Ok(Some(Self(wanted)));
        }
        if wanted == Identity::default() {
            return Ok(None);
        }
        let why = format!("requested {} without impersonating a user name", in_go(&wanted));
        Err(Refusal::bad_request(why))
    }

    /// The rights that the client needs to act as that user.
    pub(crate) fn rights(&self) -> Vec<Attributes> {
        let Identity { user, uid, groups, extra } = &self.0;
        let on = |group: &str, resource: &str, subresource: &str, namespace: &str, name: &str| {
            let target = Target::Resource {
                group: group.to_owned(),
                resource: resource.to_owned(),
                subresource: subresource.to_owned(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            };
            Attributes::new("impersonate", target)
        };
        let authentication = "authentication.k8s.io";
        let mut all = vec![match account_of_user(user) {
            Some((namespace, name)) => on("", "serviceaccounts", "", namespace, name),
            None => on("", "users", "", "", user),
        }];
        if !uid.is_empty() {
            all.push(on(authentication, "uids", "", "", uid));
        }
        all.extend(groups.iter().map(|group| on("", "groups", "", "", group)));
        for (key, values) in extra {
            all.extend(values.iter().map(|value| on(authentication, "userextras", key, "", value)));
        }
        all
    }

    /// What is told to whom one of these is not allowed, who asked for `wanted`: upstream tries narrower rights first, which
    /// are of the request as well, and tells what it lacked then.
    pub(crate) fn refused(&self, lacking: &Attributes, wanted: &Attributes) -> Attributes {
        let Identity { user, uid, groups, extra } = &self.0;
        let only_a_user = uid.is_empty() && groups.is_empty() && extra.is_empty();
        let is_node = user.strip_prefix("system:node:").is_some_and(|name| names::subdomain(name).is_empty());
        let mode = match (is_node, account_of_user(user).is_some()) {
            (true, _) => "arbitrary-node",
            (_, true) => "serviceaccount",
            _ => "user-info",
        };
        if mode != "user-info" && !only_a_user {
            return lacking.clone();
        }
        Attributes { verb: format!("impersonate-on:{mode}:{}", wanted.verb), ..wanted.clone() }
    }

    /// The identity that the request is carried out with.
    pub(crate) fn identity(self) -> Identity {
        let Self(mut identity) = self;
        if let (true, Some((namespace, _))) = (identity.groups.is_empty(), account_of_user(&identity.user)) {
            identity.groups = groups_of_accounts(namespace).into();
        }
        let also = match identity.user.as_str() {
            ANONYMOUS => Some(UNAUTHENTICATED),
            _ if identity.is_in(UNAUTHENTICATED) => None,
            _ => Some(AUTHENTICATED),
        };
        if let Some(also) = also.filter(|also| !identity.is_in(also)) {
            identity.groups.push(also.to_owned());
        }
        identity
    }
}

/// With its `%41`; `None` if one of these is none, or the text is no Unicode.
fn decoded(text: &str) -> Option<String> {
    let is_code =
        |rest: &str| rest.get(..2).is_some_and(|code| code.chars().all(|digit| digit.is_ascii_hexdigit()));
    if !text.split('%').skip(1).all(is_code) {
        return None;
    }
    percent_decode_str(text).decode_utf8().ok().map(Into::into)
}

/// As Go shows the value: clients see it in the message.
fn in_go(wanted: &Identity) -> String {
    let list = |texts: &[String]| {
        let texts: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
        format!("[]string{{{}}}", texts.join(", "))
    };
    let groups = match wanted.groups.as_slice() {
        [] => "[]string(nil)".to_owned(),
        groups => list(groups),
    };
    let extra = match wanted.extra.is_empty() {
        true => "map[string][]string(nil)".to_owned(),
        false => {
            let all: Vec<String> =
                wanted.extra.iter().map(|(key, values)| format!("{key:?}:{}", list(values))).collect();
            format!("map[string][]string{{{}}}", all.join(", "))
        }
    };
    let (name, uid) = (&wanted.user, &wanted.uid);
    format!("&user.DefaultInfo{{Name:{name:?}, UID:{uid:?}, Groups:{groups}, Extra:{extra}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(headers: &[(&'static str, &str)]) -> Result<Option<Impersonation>> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        Impersonation::of(&map)
    }

    #[test]
    fn who_is_meant_belongs_to_the_groups_that_are_named_or_that_are_always_its_own() {
        let account = "system:serviceaccount:shop:web";
        let own = &["system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"][..];
        for (user, groups, expected) in [
            (account, &[][..], own),
            (account, &["g"], &["g", "system:authenticated"]),
            ("system:serviceaccount:shop:we_b", &[], &["system:authenticated"]),
            ("bob", &[], &["system:authenticated"]),
            ("bob", &["system:unauthenticated"], &["system:unauthenticated"]),
            ("bob", &["system:authenticated"], &["system:authenticated"]),
            ("system:anonymous", &[], &["system:unauthenticated"]),
            (
                "system:anonymous",
                &["system:authenticated"],
                &["system:authenticated", "system:unauthenticated"],
            ),
        ] {
            let mut headers = vec![("impersonate-user", user)];
            headers.extend(groups.iter().map(|group| ("impersonate-group", *group)));
            let identity = wanted(&headers).unwrap().unwrap().identity();
            assert_eq!(identity.groups, expected, "{user} {groups:?}");
        }
    }

    #[test]
    fn everything_that_is_named_needs_a_right_and_nothing_else_does() {
        let rights = |headers: &[(&'static str, &str)]| -> Vec<String> {
            let rights = wanted(headers).unwrap().unwrap().rights();
            let shown = rights.into_iter().map(|right| match right.target {
                Target::Resource { group, resource, subresource, namespace, name } => {
                    format!("{} {group}/{resource}/{subresource} {namespace}/{name}", right.verb)
                }
                Target::Path(path) => path,
            });
            shown.collect()
        };
        assert_eq!(
            rights(&[("impersonate-user", "system:anonymous")]),
            ["impersonate /users/ /system:anonymous"]
        );
        assert_eq!(
            rights(&[("impersonate-user", "system:serviceaccount:shop:web")]),
            ["impersonate /serviceaccounts/ shop/web"]
        );
        let all = [
            ("impersonate-user", "bob"),
            ("impersonate-uid", "7"),
            ("impersonate-group", "system:authenticated"),
            ("impersonate-extra-some%2fthing", "u"),
            ("impersonate-extra-some%2fthing", "v"),
            ("impersonate-extra-50%", "w"),
        ];
        assert_eq!(
            rights(&all),
            [
                "impersonate /users/ /bob",
                "impersonate authentication.k8s.io/uids/ /7",
                "impersonate /groups/ /system:authenticated",
                "impersonate authentication.k8s.io/userextras/50% /w",
                "impersonate authentication.k8s.io/userextras/some/thing /u",
                "impersonate authentication.k8s.io/userextras/some/thing /v",
            ]
        );
        let identity = wanted(&all).unwrap().unwrap().identity();
        assert_eq!(
            (identity.uid.as_str(), &identity.extra["some/thing"]),
            ("7", &vec!["u".into(), "v".into()])
        );
    }

    #[test]
    fn values_are_read_as_utf_8_and_refused_where_they_are_not() {
        let of = |headers: &[(&'static str, &[u8])]| {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(*name, http::HeaderValue::from_bytes(value).unwrap());
            }
            Impersonation::of(&map)
        };
        let user = ("impersonate-user", "j\u{fc}rgen".as_bytes());
        let all = [
            user,
            ("impersonate-uid", "\u{fc}".as_bytes()),
            ("impersonate-group", "K\u{f6}ln".as_bytes()),
            ("impersonate-extra-scope", "\u{e4}".as_bytes()),
        ];
        let identity = of(&all).unwrap().expect("a user is named").identity();
        assert_eq!((identity.user.as_str(), identity.uid.as_str()), ("j\u{fc}rgen", "\u{fc}"));
        assert_eq!(identity.groups, ["K\u{f6}ln", "system:authenticated"]);
        assert_eq!(identity.extra["scope"], ["\u{e4}"]);
        for name in ["impersonate-user", "impersonate-uid", "impersonate-group", "impersonate-extra-scope"] {
            let refusal = of(&[user, (name, b"j\xfcrgen")][usize::from(name == "impersonate-user")..]);
            let status = refusal.unwrap_err().status;
            assert_eq!((status.code, status.message), (400, format!("the value of {name} is not UTF-8")));
        }
    }

    #[test]
    fn what_is_of_a_user_needs_one() {
        assert_eq!(wanted(&[]).unwrap(), None);
        assert_eq!(wanted(&[("impersonate-user", ""), ("accept", "x")]).unwrap(), None);
        for (headers, shown) in [
            (
                &[("impersonate-uid", "u")][..],
                r#"&user.DefaultInfo{Name:"", UID:"u", Groups:[]string(nil), Extra:map[string][]string(nil)}"#,
            ),
            (
                &[("impersonate-group", "u"), ("impersonate-group", "v")],
                r#"&user.DefaultInfo{Name:"", UID:"", Groups:[]string{"u", "v"}, Extra:map[string][]string(nil)}"#,
            ),
            (
                &[("impersonate-extra-some%2fthing", "u"), ("impersonate-extra-b", "v")],
                r#"&user.DefaultInfo{Name:"", UID:"", Groups:[]string(nil), Extra:map[string][]string{"b":[]string{"v"}, "some/thing":[]string{"u"}}}"#,
            ),
        ] {
            let refusal = wanted(headers).unwrap_err();
            let expected = format!("requested {shown} without impersonating a user name");
            assert_eq!((refusal.status.code, refusal.status.message), (400, expected));
        }
    }

    #[test]
    fn a_refusal_tells_the_narrowest_right_that_would_do() {
        let lists = Attributes::new("list", Target::Path("/x".into()));
        for (headers, verb) in [
            (&[("impersonate-user", "bob")][..], "impersonate-on:user-info:list"),
            (&[("impersonate-user", "bob"), ("impersonate-uid", "7")], "impersonate-on:user-info:list"),
            (&[("impersonate-user", "system:node:n")], "impersonate-on:arbitrary-node:list"),
            (&[("impersonate-user", "system:node:n"), ("impersonate-group", "system:nodes")], "impersonate"),
            (&[("impersonate-user", "system:serviceaccount:a:b")], "impersonate-on:serviceaccount:list"),
        ] {
            let wanted = wanted(headers).unwrap().unwrap();
            assert_eq!(wanted.refused(&wanted.rights()[0], &lists).verb, verb, "{headers:?}");
        }
    }
}
