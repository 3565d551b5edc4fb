//! The functions by name: who they are, how they are called, what they run.

use regex::{Regex, RegexBuilder};

use super::compile::Compiled;
use super::context::{Code, Context, code};
use super::{calendar, convert, text};
use crate::error::{CompileError, EvalError};
use crate::value::Value;

type Outcome<'a> = Result<Value<'a>, EvalError>;

/// What runs, by number of operands (a method's target is the first).
#[derive(Clone, Copy)]
enum Run {
    One(for<'a> fn(Value<'a>) -> Outcome<'a>),
    Two(for<'a> fn(Value<'a>, Value<'a>) -> Outcome<'a>),
    Three(for<'a> fn(Value<'a>, Value<'a>, Value<'a>) -> Outcome<'a>),
    /// A calendar field, of a timestamp with an optional time zone or of a duration.
    Calendar(calendar::Part),
    Matches,
}

/// How a function is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// `name(x)`
    Global,
    /// `x.name()`
    Method,
    Both,
}

#[derive(Clone, Copy)]
pub(super) struct Function {
    name: &'static str,
    style: Style,
    run: Run,
}

const fn function(name: &'static str, style: Style, run: Run) -> Function {
    Function { name, style, run }
}

const FUNCTIONS: &[Function] = &[
    function("size", Style::Both, Run::One(text::size)),
    function("contains", Style::Method, Run::Two(text::contains)),
    function("startsWith", Style::Method, Run::Two(text::starts_with)),
    function("endsWith", Style::Method, Run::Two(text::ends_with)),
    function("matches", Style::Both, Run::Matches),
    function("lowerAscii", Style::Method, Run::One(text::lower_ascii)),
    function("upperAscii", Style::Method, Run::One(text::upper_ascii)),
    function("trim", Style::Method, Run::One(text::trim)),
    function("split", Style::Method, Run::Two(text::split)),
    function("replace", Style::Method, Run::Three(text::replace)),
    function("int", Style::Global, Run::One(convert::int)),
    function("uint", Style::Global, Run::One(convert::uint)),
    function("decimal", Style::Global, Run::One(convert::decimal)),
    function("double", Style::Global, Run::One(convert::double)),
    function("string", Style::Global, Run::One(convert::string)),
    function("bool", Style::Global, Run::One(convert::bool)),
    function("bytes", Style::Global, Run::One(convert::bytes)),
    function("timestamp", Style::Global, Run::One(convert::timestamp)),
    function("duration", Style::Global, Run::One(convert::duration)),
    function("dyn", Style::Global, Run::One(convert::dynamic)),
    function("getFullYear", Style::Method, Run::Calendar(calendar::Part::FullYear)),
    function("getMonth", Style::Method, Run::Calendar(calendar::Part::Month)),
    function("getDate", Style::Method, Run::Calendar(calendar::Part::Date)),
    function("getDayOfMonth", Style::Method, Run::Calendar(calendar::Part::DayOfMonth)),
    function("getDayOfWeek", Style::Method, Run::Calendar(calendar::Part::DayOfWeek)),
    function("getDayOfYear", Style::Method, Run::Calendar(calendar::Part::DayOfYear)),
    function("getHours", Style::Method, Run::Calendar(calendar::Part::Hours)),
    function("getMinutes", Style::Method, Run::Calendar(calendar::Part::Minutes)),
    function("getSeconds", Style::Method, Run::Calendar(calendar::Part::Seconds)),
    function("getMilliseconds", Style::Method, Run::Calendar(calendar::Part::Milliseconds)),
];

const MACROS: &[&str] = &["has", "all", "exists", "exists_one", "filter", "map"];
const AGGREGATES: &[&str] = &["count", "sum", "min", "max", "avg"];

/// The function of a call, or why there is none.
pub(super) fn find(
    source: &str,
    offset: usize,
    name: &str,
    method: bool,
    arguments: usize,
) -> Result<Function, CompileError> {
    let error = |code, message: String| CompileError::new(code, source, offset, message);
    let Some(function) = FUNCTIONS.iter().find(|function| function.name == name) else {
        return Err(unknown(error("OW-5010", format!("there is no function `{name}`")), name, method));
    };
    let operands = arguments + usize::from(method);
    let wanted = match function.run {
        Run::One(_) => 1..=1,
        Run::Two(_) | Run::Matches => 2..=2,
        Run::Three(_) => 3..=3,
        Run::Calendar(_) => 1..=2,
    };
    let example = example(function, *wanted.start());
    if (method && function.style == Style::Global) || (!method && function.style == Style::Method) {
        let found = if method { "as a method" } else { "without a receiver" };
        return Err(error("OW-5011", format!("`{name}` is called {found}")).help(format!("write {example}")));
    }
    if !wanted.contains(&operands) {
        let given = if arguments == 1 { "1 argument".to_owned() } else { format!("{arguments} arguments") };
        return Err(error("OW-5011", format!("`{name}` has {given}")).help(format!("write {example}")));
    }
    Ok(*function)
}

fn example(function: &Function, operands: usize) -> String {
    let names = ["x", "y", "z"];
    if function.style == Style::Global {
        format!("{}({})", function.name, names[..operands].join(", "))
    } else {
        format!("{}.{}({})", names[0], function.name, names[1..operands].join(", "))
    }
}

fn unknown(error: CompileError, name: &str, method: bool) -> CompileError {
    if !method && AGGREGATES.contains(&name) {
        return error.help(format!("{name}() is an aggregate: it stands in `compute` of an aggregate"));
    }
    if !method && MACROS.contains(&name) {
        return error.help(format!("{name} is called on a list or map: items.{name}(x, ..)"));
    }
    let known = FUNCTIONS.iter().map(|function| function.name).chain(MACROS.iter().copied());
    let lower = name.to_ascii_lowercase();
    let nearest = known
        .map(|known| (strsim::damerau_levenshtein(&known.to_ascii_lowercase(), &lower), known))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, known)| *distance <= 1 + known.len() / 4);
    match nearest {
        Some((_, known)) => error.help(format!("did you mean `{known}`?")),
        None => {
            let all: Vec<&str> = FUNCTIONS.iter().map(|function| function.name).collect();
            error.help(format!("known functions: {}", all.join(", ")))
        }
    }
}

/// The closure of a call.
pub(super) fn call(
    source: &str,
    pattern_offset: usize,
    function: Function,
    operands: Vec<Compiled>,
) -> Result<Code, CompileError> {
    if let Run::Matches = function.run
        && let [_, Compiled { constant: Some(Value::String(pattern)), .. }] = &operands[..]
    {
        let pattern = compile_pattern(pattern).map_err(|reason| {
            CompileError::new(
                "OW-5012",
                source,
                pattern_offset,
                format!("the pattern is not usable: {reason}"),
            )
            .help("patterns follow RE2: no look-around, no back-references")
        })?;
        let mut codes = operands.into_iter().map(|operand| operand.code);
        return Ok(match codes.next() {
            Some(subject) => code(move |context| matches(context, subject(context)?, &pattern)),
            None => code(|_| Ok(Value::Null)),
        });
    }
    let mut codes = operands.into_iter().map(|operand| operand.code);
    let (first, second, third) = (codes.next(), codes.next(), codes.next());
    // `find` has checked the count.
    let Some(first) = first else { return Ok(code(|_| Ok(Value::Null))) };
    Ok(match (function.run, second, third) {
        (Run::One(run), ..) => code(move |context| run(charged(context, &first)?)),
        (Run::Two(run), Some(second), _) => {
            code(move |context| run(charged(context, &first)?, charged(context, &second)?))
        }
        (Run::Three(run), Some(second), Some(third)) => code(move |context| {
            run(charged(context, &first)?, charged(context, &second)?, charged(context, &third)?)
        }),
        (Run::Calendar(part), Some(zone), _) => {
            code(move |context| calendar::part(part, first(context)?, Some(zone(context)?)))
        }
        (Run::Calendar(part), None, _) => code(move |context| calendar::part(part, first(context)?, None)),
        (Run::Matches, Some(second), _) => code(move |context| {
            let subject = first(context)?;
            let Value::String(pattern) = second(context)? else {
                return Err(EvalError::types("matches", &["a pattern that is no string"]));
            };
            // Building a pattern costs far more than its length.
            context.charge(1000 + pattern.len())?;
            let built = compile_pattern(&pattern)
                .map_err(|_| EvalError::argument("matches", &pattern, "an RE2 pattern"))?;
            matches(context, subject, &built)
        }),
        (_, _, _) => first,
    })
}

fn charged<'a>(context: &Context<'_, 'a>, operand: &Code) -> Outcome<'a> {
    let value = operand(context)?;
    context.charge_for(&value)?;
    Ok(value)
}

fn compile_pattern(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(pattern).size_limit(1 << 20).dfa_size_limit(1 << 20).build().map_err(
        |error| match error {
            regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
            other => other.to_string().lines().last().unwrap_or_default().trim().to_owned(),
        },
    )
}

fn matches<'a>(context: &Context<'_, 'a>, subject: Value<'a>, pattern: &Regex) -> Outcome<'a> {
    context.charge_for(&subject)?;
    match subject {
        Value::String(text) => Ok(Value::Bool(pattern.is_match(&text))),
        other => Err(EvalError::types("matches", &[other.type_name()])),
    }
}
