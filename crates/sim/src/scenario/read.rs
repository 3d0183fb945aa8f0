//! Deserialisation of files. Its errors hold the key, the value found and the values accepted, so that no message of a parser
//! has to be rewritten. Structs are read from tables only: serde's derived code also accepts a list, in the order of the fields.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::StringDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, Expected, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, VariantAccess, Visitor,
};

use super::source::ScenarioError;
use super::text::nearest;

/// A value of a file.
#[derive(Clone, Debug)]
pub enum Node {
    /// JSON's null.
    Null,
    /// True or false.
    Bool(bool),
    /// A signed number: any of TOML, and those below 0 of JSON.
    Signed(i64),
    /// A number of JSON from 0 up.
    Unsigned(u64),
    /// A number with a fraction.
    Float(f64),
    /// A text, or a date of TOML.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A table, in the order of the file.
    Table(Vec<(String, Node)>),
}

impl From<toml::Value> for Node {
    fn from(value: toml::Value) -> Self {
        match value {
            toml::Value::Boolean(value) => Self::Bool(value),
            toml::Value::Integer(value) => Self::Signed(value),
            toml::Value::Float(value) => Self::Float(value),
            toml::Value::String(text) => Self::Text(text),
            toml::Value::Datetime(date) => Self::Text(date.to_string()),
            toml::Value::Array(items) => Self::List(items.into_iter().map(Self::from).collect()),
            toml::Value::Table(table) => {
                Self::Table(table.into_iter().map(|(key, value)| (key, Self::from(value))).collect())
            }
        }
    }
}

impl From<serde_json::Value> for Node {
    fn from(value: serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(value) => Self::Bool(value),
            serde_json::Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(value), _) => Self::Unsigned(value),
                (None, Some(value)) => Self::Signed(value),
                (None, None) => Self::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            serde_json::Value::String(text) => Self::Text(text),
            serde_json::Value::Array(items) => Self::List(items.into_iter().map(Self::from).collect()),
            serde_json::Value::Object(table) => {
                Self::Table(table.into_iter().map(|(key, value)| (key, Self::from(value))).collect())
            }
        }
    }
}

/// A problem with a value of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// A key that the table does not have.
    UnknownKey {
        /// The key.
        key: String,
        /// The keys of the table.
        known: &'static [&'static str],
    },
    /// A key that is required.
    MissingKey(&'static str),
    /// A value of another type.
    WrongType(Box<WrongType>),
    /// A problem found while the value was converted to its type, as one line.
    Value(String),
}

/// A value of another type than the key's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongType {
    /// The value found, in words.
    pub found: String,
    /// The value itself, unless it is a list or a table.
    pub value: Option<String>,
    /// Description of the accepted values.
    pub accepted: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKey { key, known } => match nearest(key, known.iter().copied()) {
                Some(near) => write!(f, "unknown key {key:?}; did you mean {near}?"),
                None => write!(f, "unknown key {key:?}; the keys here are {}", known.join(", ")),
            },
            Self::MissingKey(key) => write!(f, "{key:?} is missing; write it"),
            Self::WrongType(wrong) => write!(f, "{}; write {}", wrong.found, wrong.accepted),
            Self::Value(message) => f.write_str(message),
        }
    }
}

/// A problem, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// Keys and indices of the value, innermost first: each level adds its own while the error propagates.
    path: Vec<String>,
    /// The problem.
    pub problem: Problem,
}

impl ReadError {
    /// The key: `rate`, `flow[1]`, `link[0].rate`. Empty for the file as a whole.
    pub fn path(&self) -> String {
        let mut path = String::new();
        for piece in self.path.iter().rev() {
            if !path.is_empty() && !piece.starts_with('[') {
                path.push('.');
            }
            path += piece;
        }
        path
    }

    /// Line of the value in a file whose lines are known by path; 1 for the file as a whole.
    pub fn line(&self, lines: &BTreeMap<String, usize>) -> usize {
        let mut path = self.path();
        if let Problem::UnknownKey { key, .. } = &self.problem {
            path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        }
        loop {
            if let Some(line) = lines.get(&path) {
                return *line;
            }
            match path.rfind(['[', '.']) {
                Some(end) => path.truncate(end),
                None => return 1,
            }
        }
    }

    fn of(problem: Problem) -> Self {
        Self { path: Vec::new(), problem }
    }

    fn within(mut self, piece: String) -> Self {
        self.path.push(piece);
        self
    }
}

impl From<ReadError> for ScenarioError {
    fn from(error: ReadError) -> Self {
        Self::new(error.path(), error.problem.to_string())
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ScenarioError::from(self.clone()).fmt(f)
    }
}

impl std::error::Error for ReadError {}

impl serde::de::Error for ReadError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::of(Problem::Value(message.to_string().split_whitespace().collect::<Vec<_>>().join(" ")))
    }

    fn invalid_type(found: Unexpected<'_>, accepted: &dyn Expected) -> Self {
        Self::of(wrong_type(found, accepted.to_string()))
    }

    fn invalid_value(found: Unexpected<'_>, accepted: &dyn Expected) -> Self {
        Self::invalid_type(found, accepted)
    }

    fn unknown_field(key: &str, known: &'static [&'static str]) -> Self {
        Self::of(Problem::UnknownKey { key: key.to_owned(), known })
    }

    fn missing_field(key: &'static str) -> Self {
        Self::of(Problem::MissingKey(key))
    }
}

fn described(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Seq => "a list is not accepted".to_owned(),
        Unexpected::Map => "a table is not accepted".to_owned(),
        Unexpected::Unit | Unexpected::Option => "null is not accepted".to_owned(),
        Unexpected::Bool(value) => format!("found `{value}`"),
        Unexpected::Unsigned(value) => format!("found the number `{value}`"),
        Unexpected::Signed(value) => format!("found the number `{value}`"),
        Unexpected::Float(value) => format!("found the number `{value}`"),
        Unexpected::Str(text) => format!("found the text {text:?}"),
        other => format!("found {other}"),
    }
}

fn wrong_type(found: Unexpected<'_>, accepted: String) -> Problem {
    Problem::WrongType(Box::new(WrongType { found: described(found), value: value_of(found), accepted }))
}

fn value_of(found: Unexpected<'_>) -> Option<String> {
    match found {
        Unexpected::Bool(value) => Some(value.to_string()),
        Unexpected::Unsigned(value) => Some(value.to_string()),
        Unexpected::Signed(value) => Some(value.to_string()),
        Unexpected::Float(value) => Some(value.to_string()),
        Unexpected::Str(text) => Some(text.to_owned()),
        _ => None,
    }
}

/// Reads a value of a file.
pub fn read<T: DeserializeOwned>(node: impl Into<Node>) -> Result<T, ReadError> {
    T::deserialize(&node.into())
}

/// Reads a file in TOML. An error is its line and its text.
pub fn read_toml<T: DeserializeOwned>(text: &str) -> Result<T, (usize, ReadError)> {
    let lines = lines(text)?;
    let table: toml::Table = toml::from_str(text).map_err(|error| (1, ReadError::custom(error.message())))?;
    read(toml::Value::Table(table)).map_err(|error: ReadError| (error.line(&lines), error))
}

/// Line of each key of a file in TOML, by its path.
pub(super) fn lines(text: &str) -> Result<BTreeMap<String, usize>, (usize, ReadError)> {
    let feeds: Vec<usize> = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect();
    let line_of = |offset: usize| feeds.partition_point(|feed| *feed < offset) + 1;
    let table = toml::de::DeTable::parse(text)
        .map_err(|error| (error.span().map_or(1, |span| line_of(span.start)), ReadError::custom(error.message())))?;
    let mut lines = BTreeMap::new();
    note_table(table.get_ref(), "", &line_of, &mut lines);
    Ok(lines)
}

fn note_table(
    table: &toml::de::DeTable<'_>,
    prefix: &str,
    line_of: &impl Fn(usize) -> usize,
    lines: &mut BTreeMap<String, usize>,
) {
    for (key, value) in table {
        let path = if prefix.is_empty() { key.get_ref().to_string() } else { format!("{prefix}.{}", key.get_ref()) };
        lines.insert(path.clone(), line_of(key.span().start));
        note(value, &path, line_of, lines);
    }
}

fn note(
    value: &toml::Spanned<toml::de::DeValue<'_>>,
    path: &str,
    line_of: &impl Fn(usize) -> usize,
    lines: &mut BTreeMap<String, usize>,
) {
    match value.get_ref() {
        toml::de::DeValue::Table(table) => note_table(table, path, line_of, lines),
        toml::de::DeValue::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let path = format!("{path}[{index}]");
                lines.insert(path.clone(), line_of(item.span().start));
                note(item, &path, line_of, lines);
            }
        }
        _ => {}
    }
}

impl Node {
    fn found(&self) -> Unexpected<'_> {
        match self {
            Self::Null => Unexpected::Unit,
            Self::Bool(value) => Unexpected::Bool(*value),
            Self::Signed(value) => Unexpected::Signed(*value),
            Self::Unsigned(value) => Unexpected::Unsigned(*value),
            Self::Float(value) => Unexpected::Float(*value),
            Self::Text(text) => Unexpected::Str(text),
            Self::List(_) => Unexpected::Seq,
            Self::Table(_) => Unexpected::Map,
        }
    }

    fn wrong(&self, accepted: impl Into<String>) -> ReadError {
        ReadError::of(wrong_type(self.found(), accepted.into()))
    }

    /// A whole number from 0 to `max`.
    fn whole(&self, max: u64) -> Result<u64, ReadError> {
        let value = match self {
            Self::Unsigned(value) => Some(*value),
            Self::Signed(value) => u64::try_from(*value).ok(),
            _ => None,
        };
        value.filter(|value| *value <= max).ok_or_else(|| self.wrong(format!("a whole number from 0 to {max}")))
    }
}

/// Description of the table that a struct is read from, by the name of its type.
fn table_named(name: &str) -> String {
    match name {
        "Scenario" => "the keys of a scenario in braces".to_owned(),
        "LinkSpec" => "a [[link]] table".to_owned(),
        "ExpectSpec" => "an [[expect]] table".to_owned(),
        "ArrivalSpec" => "an [[arrivals]] table".to_owned(),
        _ => "a table of keys".to_owned(),
    }
}

const A_LIST: &str = "a list in brackets";
const TABLES: &str = "a list in brackets, or a table of its own in double brackets for each";
const A_TEXT: &str = "a text in quotation marks";

macro_rules! whole_numbers {
    ($($method:ident: $type:ty),+) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
            visitor.visit_u64(self.whole(<$type>::MAX.into())?)
        }
    )+};
}

impl<'de> Deserializer<'de> for &Node {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self {
            Node::Null => visitor.visit_unit(),
            Node::Bool(value) => visitor.visit_bool(*value),
            Node::Signed(value) => visitor.visit_i64(*value),
            Node::Unsigned(value) => visitor.visit_u64(*value),
            Node::Float(value) => visitor.visit_f64(*value),
            Node::Text(text) => visitor.visit_str(text),
            Node::List(items) => visitor.visit_seq(Items { items: items.iter().enumerate() }),
            Node::Table(table) => visitor.visit_map(Keys { keys: table.iter(), value: None }),
        }
    }

    whole_numbers!(deserialize_u8: u8, deserialize_u16: u16, deserialize_u32: u32, deserialize_u64: u64);

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self {
            Node::Signed(_) | Node::Unsigned(_) | Node::Float(_) => self.deserialize_any(visitor),
            _ => Err(self.wrong("a number")),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self {
            Node::Text(text) => visitor.visit_str(text),
            _ => Err(self.wrong(A_TEXT)),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self {
            Node::List(_) => self.deserialize_any(visitor),
            Node::Table(_) => Err(self.wrong(TABLES)),
            _ => Err(self.wrong(A_LIST)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self {
            Node::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match self {
            Node::Table(_) => self.deserialize_any(visitor),
            _ => Err(self.wrong(table_named(name))),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match self {
            Node::Text(text) => visitor.visit_enum(Variant { name: text, value: None }),
            Node::Table(table) if table.len() == 1 => {
                visitor.visit_enum(Variant { name: &table[0].0, value: Some(&table[0].1) })
            }
            _ => Err(self.wrong(format!("one of {}", variants.join(", ")))),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u128 f32 char bytes byte_buf unit unit_struct tuple tuple_struct map identifier ignored_any
    }
}

struct Items<'a> {
    items: std::iter::Enumerate<std::slice::Iter<'a, Node>>,
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, ReadError> {
        let Some((index, item)) = self.items.next() else { return Ok(None) };
        seed.deserialize(item).map(Some).map_err(|error| error.within(format!("[{index}]")))
    }
}

struct Keys<'a> {
    keys: std::slice::Iter<'a, (String, Node)>,
    value: Option<&'a (String, Node)>,
}

impl<'de> MapAccess<'de> for Keys<'_> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ReadError> {
        self.value = self.keys.next();
        self.value.map(|(key, _)| seed.deserialize(key.as_str().into_deserializer())).transpose()
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, ReadError> {
        let (key, value) = self.value.take().ok_or_else(|| ReadError::custom("a key has no value"))?;
        seed.deserialize(value).map_err(|error| error.within(key.clone()))
    }
}

struct Variant<'a> {
    name: &'a str,
    value: Option<&'a Node>,
}

impl<'de> EnumAccess<'de> for Variant<'_> {
    type Error = ReadError;
    type Variant = Self;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self), ReadError> {
        let name: StringDeserializer<ReadError> = self.name.to_owned().into_deserializer();
        Ok((seed.deserialize(name)?, self))
    }
}

impl Variant<'_> {
    fn content(&self) -> Result<&Node, ReadError> {
        self.value
            .ok_or_else(|| ReadError::custom(format!("{:?} needs a value; write {{ {} = … }}", self.name, self.name)))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_> {
    type Error = ReadError;

    fn unit_variant(self) -> Result<(), ReadError> {
        match self.value {
            None => Ok(()),
            Some(value) => Err(value.wrong(format!("{:?} alone", self.name))),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, ReadError> {
        seed.deserialize(self.content()?).map_err(|error| error.within(self.name.to_owned()))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, ReadError> {
        self.content()?.deserialize_seq(visitor).map_err(|error| error.within(self.name.to_owned()))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.content()?.deserialize_struct("", fields, visitor).map_err(|error| error.within(self.name.to_owned()))
    }
}
