//! A plan as it is written.

use crate::plan::{FORMAT, Plan, PlanError, TEXT_MAX, TREE_FORMAT};
use crate::tree::TreePlan;

/// What `howdah plan` writes: the plan of one file, or of a tree.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Planned {
    /// Of one.
    File(Plan),
    /// Of many.
    Tree(TreePlan),
}

impl Planned {
    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    ///
    /// Any [`PlanError`].
    pub fn decode(text: &str) -> Result<Self, PlanError> {
        if text.len() > TEXT_MAX {
            return Err(PlanError::Malformed("it is too long".to_owned()));
        }
        // As some editors begin a text with.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let malformed = |e: serde_json::Error| {
            let mut why = e.to_string();
            if e.is_eof() {
                why.push_str("; its end is missing: take it from where 'howdah plan' wrote it");
            }
            PlanError::Malformed(why)
        };
        let value: serde_json::Value = serde_json::from_str(text).map_err(malformed)?;
        let format = value.get("howdah_plan").and_then(serde_json::Value::as_u64);
        if format == Some(TREE_FORMAT.into()) {
            let plan: TreePlan = serde_json::from_value(value).map_err(malformed)?;
            return plan.check().map(|()| Self::Tree(plan));
        }
        if let Some(format) = format.filter(|format| *format != u64::from(FORMAT)) {
            return Err(PlanError::Format(u32::try_from(format).unwrap_or(u32::MAX)));
        }
        let plan: Plan = serde_json::from_value(value).map_err(malformed)?;
        plan.check().map(|()| Self::File(plan))
    }

    /// JSON, with a line feed at its end.
    pub fn encode(&self) -> String {
        let text = match self {
            Self::File(plan) => serde_json::to_string_pretty(plan),
            Self::Tree(plan) => serde_json::to_string_pretty(plan),
        };
        text.unwrap_or_default() + "\n"
    }

    /// Tells it from others.
    pub fn id(&self) -> &str {
        match self {
            Self::File(plan) => plan.id(),
            Self::Tree(plan) => plan.id(),
        }
    }

    /// Where it comes from.
    pub fn source(&self) -> &str {
        match self {
            Self::File(plan) => plan.source(),
            Self::Tree(plan) => plan.source(),
        }
    }

    /// Where it goes.
    pub fn destination(&self) -> &str {
        match self {
            Self::File(plan) => plan.destination(),
            Self::Tree(plan) => plan.destination(),
        }
    }

    /// How many leases there are; at least one.
    pub fn leases(&self) -> u64 {
        match self {
            Self::File(plan) => plan.leases(),
            Self::Tree(plan) => plan.leases(),
        }
    }
}
