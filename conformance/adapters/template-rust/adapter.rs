//! An adapter to fill in: it lets the conformance suite ask your reader. Put your reader into read; the rest stays.
//! It needs no crate: rustc -O --edition 2021 adapter.rs

use std::error::Error;
use std::fmt::{self, Display, Formatter, Write as _};
use std::io::{self, BufRead, Read, Write as _};
use std::{env, fs, panic, process};

fn profile() -> Json {
    object([
        ("protocol", Json::Number(1)),
        ("name", text("my reader")),
        ("version", text("0.1")),
        ("commands", texts(&["decode", "verify", "serve"])),
        (
            "reads",
            object([
                ("layouts", texts(&["safetensors"])),
                ("lacks", texts(&[])),
                ("omits", texts(&[])),
                ("shapes", texts(&[])),
            ]),
        ),
    ])
}

/// The error of a file that is wrong. Any other error, and a panic, counts as a crash.
#[derive(Debug, Default)]
struct Rejected {
    rule: Option<String>,
    offset: Option<u64>,
    message: String,
}

/// The error of a file that may be right, but that your reader cannot read. The suite skips it.
#[derive(Debug)]
struct Unsupported(String);

/// Names the rule that a file breaks, and the byte where it does.
fn reject<T>(rule: &str, offset: u64, message: &str) -> Result<T, Box<dyn Error>> {
    Err(Box::new(Rejected {
        rule: Some(rule.into()),
        offset: Some(offset),
        message: message.into(),
    }))
}

/// Your reader. Returns canonical JSON; if verify, it checks every hash too. request may have key_hex or passphrase.
fn read(file: &str, _request: &Json, _verify: bool) -> Result<Json, Box<dyn Error>> {
    let mut stream = fs::File::open(file)?;
    let mut length = [0; 8];
    if stream.read_exact(&mut length).is_err() {
        return reject(
            "ST-001",
            0,
            "the file is too short for the length of a header",
        );
    }
    Err(Box::new(Unsupported("there is no reader here yet".into())))
}

/// Returns what is answered to a request, and under which name.
fn answer(request: &Json) -> (&'static str, Json) {
    let command = request.string("command").unwrap_or_default();
    if command == "capabilities" {
        return ("capabilities", profile());
    }
    let verify = command == "verify";
    let file = request.string("file").unwrap_or_default();
    let error = match panic::catch_unwind(|| read(file, request, verify)) {
        Ok(Ok(_)) if verify => return ("verified", Json::Bool(true)),
        Ok(Ok(content)) => return ("decoded", content),
        Ok(Err(error)) => error,
        // Where it happened is on stderr by now.
        Err(_) => return ("crashed", text("a panic")),
    };
    if let Some(Unsupported(message)) = error.downcast_ref() {
        return ("unsupported", text(message));
    }
    match error.downcast_ref::<Rejected>() {
        Some(rejected) => ("rejected", rejected.json()),
        None => ("crashed", text(&error.to_string())),
    }
}

/// Answers lines of JSON until stdin ends.
fn serve() -> Result<(), Box<dyn Error>> {
    for line in io::stdin().lock().lines() {
        let request = parse(&line?)?;
        let (name, value) = answer(&request);
        let id = request.member("id").cloned().unwrap_or(Json::Null);
        println!("{}", object([("id", id), (name, value)]));
        io::stdout().flush()?;
    }
    Ok(())
}

/// Answers a command line: a command, a file, and perhaps an option that names the file of a key.
fn answer_once(words: &[String]) -> Result<i32, Box<dyn Error>> {
    let mut request = vec![("command", text(&words[0]))];
    if let Some(file) = words.get(1) {
        request.push(("file", text(file)));
    }
    if let Some(secret) = words.get(3) {
        let is_key = words[2] == "--key-file";
        let name = if is_key { "key_hex" } else { "passphrase" };
        request.push((name, text(&fs::read_to_string(secret)?)));
    }
    let (name, value) = answer(&object(request));
    let status = match name {
        "crashed" => return Err(value.to_string().into()),
        "rejected" => 1,
        "unsupported" => 2,
        _ => 0,
    };
    let is_whole = name == "capabilities" || name == "decoded";
    println!(
        "{}",
        if is_whole {
            value
        } else {
            object([(name, value)])
        }
    );
    Ok(status)
}

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    let done = match words.first().map(String::as_str) {
        None => Err("the command is missing".into()),
        Some("serve") => serve().map(|()| 0),
        Some(_) => answer_once(&words),
    };
    process::exit(done.unwrap_or_else(|error| {
        eprintln!("{error}");
        3
    }));
}

impl Rejected {
    fn json(&self) -> Json {
        object([
            ("rule", self.rule.as_deref().map_or(Json::Null, text)),
            ("offset", self.offset.map_or(Json::Null, Json::Number)),
            ("message", text(&self.message)),
        ])
    }
}

impl Display for Rejected {
    fn fmt(&self, out: &mut Formatter) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl Display for Unsupported {
    fn fmt(&self, out: &mut Formatter) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl Error for Rejected {}
impl Error for Unsupported {}

/// JSON of the protocol, whose numbers are whole. A project that has serde_json can use that instead.
#[derive(Clone, Debug)]
enum Json {
    Null,
    Bool(bool),
    Number(u64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

fn text(value: &str) -> Json {
    Json::Text(value.into())
}

fn texts(values: &[&str]) -> Json {
    Json::List(values.iter().map(|value| text(value)).collect())
}

fn object<'a>(members: impl IntoIterator<Item = (&'a str, Json)>) -> Json {
    let owned = members
        .into_iter()
        .map(|(name, value)| (name.into(), value));
    Json::Object(owned.collect())
}

impl Json {
    fn member(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members
                .iter()
                .find(|(key, _)| key == name)
                .map(|(_, value)| value),
            _ => None,
        }
    }

    fn string(&self, name: &str) -> Option<&str> {
        match self.member(name) {
            Some(Json::Text(value)) => Some(value),
            _ => None,
        }
    }
}

impl Display for Json {
    fn fmt(&self, out: &mut Formatter) -> fmt::Result {
        match self {
            Json::Null => out.write_str("null"),
            Json::Bool(value) => write!(out, "{value}"),
            Json::Number(value) => write!(out, "{value}"),
            Json::Text(value) => write_quoted(out, value),
            Json::List(values) => {
                out.write_char('[')?;
                for (at, value) in values.iter().enumerate() {
                    write!(out, "{}{value}", if at > 0 { "," } else { "" })?;
                }
                out.write_char(']')
            }
            Json::Object(members) => {
                out.write_char('{')?;
                for (at, (name, value)) in members.iter().enumerate() {
                    out.write_str(if at > 0 { "," } else { "" })?;
                    write_quoted(out, name)?;
                    write!(out, ":{value}")?;
                }
                out.write_char('}')
            }
        }
    }
}

fn write_quoted(out: &mut Formatter, value: &str) -> fmt::Result {
    out.write_char('"')?;
    for letter in value.chars() {
        match letter {
            '"' | '\\' => write!(out, "\\{letter}")?,
            '\0'..='\x1f' => write!(out, "\\u{:04x}", letter as u32)?,
            _ => out.write_char(letter)?,
        }
    }
    out.write_char('"')
}

/// Parses a request of the suite, which is an object of texts and whole numbers.
fn parse(line: &str) -> Result<Json, Box<dyn Error>> {
    let mut rest = line
        .trim()
        .strip_prefix('{')
        .ok_or("a request is an object")?;
    let mut members = Vec::new();
    while !rest.starts_with('}') {
        let (name, after) = parse_text(rest.trim_start_matches([',', ' ']))?;
        rest = after
            .trim_start()
            .strip_prefix(':')
            .ok_or("a colon is missing")?
            .trim_start();
        let value;
        if rest.starts_with('"') {
            let (content, after) = parse_text(rest)?;
            (value, rest) = (Json::Text(content), after);
        } else {
            let end = rest.find([',', '}']).ok_or("a request ends early")?;
            (value, rest) = (Json::Number(rest[..end].trim().parse()?), &rest[end..]);
        }
        members.push((name, value));
        rest = rest.trim_start();
    }
    Ok(Json::Object(members))
}

/// Parses a text in quotation marks; returns it, and what follows it.
fn parse_text(quoted: &str) -> Result<(String, &str), Box<dyn Error>> {
    let mut letters = quoted.strip_prefix('"').ok_or("a text is missing")?.chars();
    let mut units = Vec::new();
    loop {
        let letter = match letters.next().ok_or("a text ends early")? {
            '"' => return Ok((String::from_utf16(&units)?, letters.as_str())),
            '\\' => match letters.next().ok_or("a text ends early")? {
                'u' => {
                    let digits: String = letters.by_ref().take(4).collect();
                    units.push(u16::from_str_radix(&digits, 16)?);
                    continue;
                }
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'b' => '\x08',
                'f' => '\x0c',
                other => other,
            },
            other => other,
        };
        units.extend_from_slice(letter.encode_utf16(&mut [0; 2]));
    }
}
