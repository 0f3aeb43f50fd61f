//! Reports for the user: pure functions from a trace to text or JSON.
//!
//! The [`Names`] trait provides the names of code and data: from the program's files ([`ProgramNames`]), or from a few
//! lines in a test.

#![forbid(unsafe_code)]

mod cause;
mod counterfactuals;
mod debugger;
mod describe;
mod divergence;
mod expressions;
mod facts;
mod functions;
mod graph;
mod html;
mod interleaving;
mod json;
mod junit;
mod library_calls;
mod line;
mod names;
mod objects;
mod operations;
mod outcome;
mod paths;
mod perfetto;
mod render_options;
mod sarif;
mod slice;
mod stack;
mod waits;

pub use cause::cause_text;
pub use counterfactuals::{counterfactuals_json, counterfactuals_text, preemption_text};
pub use debugger::debugger_json;
pub use divergence::{
    difference_json, difference_text, divergence_json, divergence_place_text, divergence_text,
};
pub use graph::schedule_dot;
pub use html::html;
pub use interleaving::{interleaving, interleaving_table};
pub use json::{outcome_json, stats_json, warnings_json};
pub use junit::{Case, CaseResult, junit};
pub use library_calls::calls_text;
pub use names::{Names, ProgramNames};
pub use objects::{ObjectNames, operation_text};
pub use operations::{OperationError, add_operations};
pub use outcome::{headline_text, outcome_text, rest_text, stats_text};
pub use perfetto::perfetto;
pub use render_options::RenderOptions;
pub use sarif::sarif;
pub use slice::{
    LineRace, SliceLine, SliceReport, SourceLine, UnknownCall, on_line, slice_dot, slice_json, slice_text,
};
