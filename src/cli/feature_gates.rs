//! `--feature-gates`.

use super::values::{boolean, items};

/// Gates of kube-controller-manager that stand for something this program does, whatever they say.
const ALWAYS_ON: [&str; 1] = ["ControllerManagerReleaseLeaderElectionLockOnExit"];

/// Reads `Name=true,kube:Other=false`, possibly several times; the answer is what to warn of.
///
/// # Errors
/// A part that is not of this form.
pub(crate) fn warnings(lists: &[String]) -> Result<Vec<String>, String> {
    let mut warnings = Vec::new();
    for item in items(lists).filter(|item| !item.is_empty()) {
        let (name, value) =
            item.split_once('=').ok_or_else(|| format!("missing bool value for feature gate {item:?}"))?;
        let on =
            boolean(value.trim()).map_err(|why| format!("value {value:?} of feature gate {name:?} {why}"))?;
        let name = name.trim();
        let gate = name.strip_prefix("kube:").unwrap_or(name);
        match (ALWAYS_ON.contains(&gate), on) {
            (true, true) => {}
            (true, false) => warnings.push(format!("feature gate {gate} can't be switched off here")),
            (false, _) => warnings.push(format!("feature gate {gate} is not known here and has no effect")),
        }
    }
    Ok(warnings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warned(text: &str) -> Result<Vec<String>, String> {
        warnings(&[text.to_owned()])
    }

    #[test]
    fn gates_that_nobody_knows_are_warned_of() {
        assert_eq!(warned(""), Ok(vec![]));
        assert_eq!(warned("ControllerManagerReleaseLeaderElectionLockOnExit=true"), Ok(vec![]));
        let warnings =
            warned("AllAlpha=true, kube:Foo=false,kube:ControllerManagerReleaseLeaderElectionLockOnExit=f");
        assert_eq!(
            warnings.unwrap(),
            [
                "feature gate AllAlpha is not known here and has no effect",
                "feature gate Foo is not known here and has no effect",
                "feature gate ControllerManagerReleaseLeaderElectionLockOnExit can't be switched off here",
            ]
        );
    }

    #[test]
    fn gates_that_say_neither_true_nor_false_are_refused() {
        assert_eq!(warned("Foo"), Err("missing bool value for feature gate \"Foo\"".to_owned()));
        assert_eq!(
            warned("Foo=yes"),
            Err("value \"yes\" of feature gate \"Foo\" must be true or false".to_owned())
        );
    }
}
