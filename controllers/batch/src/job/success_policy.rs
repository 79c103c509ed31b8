//! A job's `successPolicy`: when an indexed job succeeds before all of its indexes have.

use super::indexes::Indexes;

/// The rules of a policy. The job succeeds once one of them holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuccessPolicy(Vec<Rule>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    /// The indexes that count. `None`: all of them.
    indexes: Option<Indexes>,
    /// How many of them must succeed. `None`: all of them.
    count: Option<usize>,
}

impl SuccessPolicy {
    /// Reads the policy of a job of that many completions. Indexes beyond them do not count.
    pub(super) fn of(policy: &steersman_kinds::job::SuccessPolicy, completions: usize) -> Self {
        let rules = policy.rules.iter().map(|rule| Rule {
            indexes: rule.succeeded_indexes.as_ref().map(|text| Indexes::parse(text, completions)),
            count: rule.succeeded_count.map(super::size),
        });
        Self(rules.collect())
    }

    /// The place of the first rule that holds once these indexes have succeeded. No rule holds before any index has.
    pub(super) fn met(&self, succeeded: &Indexes) -> Option<usize> {
        if succeeded.is_empty() {
            return None;
        }
        self.0.iter().position(|rule| rule.holds(succeeded))
    }
}

impl Rule {
    fn holds(&self, succeeded: &Indexes) -> bool {
        match &self.indexes {
            // None of the rule's indexes is left since the job was scaled down.
            Some(indexes) if indexes.is_empty() => false,
            Some(indexes) => {
                let common = indexes.common(succeeded);
                common == indexes.total() || self.count.is_some_and(|count| common >= count)
            }
            None => self.count.is_some_and(|count| succeeded.total() >= count),
        }
    }
}
