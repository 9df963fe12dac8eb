//! Functions that look up names in the traces: `variable`, `line`, `type`, `stack`.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, ListBuilder, StringArray, StringBuilder, UInt64Array,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::{Result, plan_err};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use memref::{ThreadId, VirtAddr};
use memtap_arrow::{AskedAddress, Lookups, StackFunctions};

use crate::provider::NamedTrace;

/// What is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum LookedUp {
    /// The variable at an address.
    Variable,
    /// The source line of an instruction.
    Line,
    /// The type of a variable.
    Type,
    /// The functions of a stack.
    Stack,
}

impl LookedUp {
    const ALL: [Self; 4] = [Self::Variable, Self::Line, Self::Type, Self::Stack];

    fn name(self) -> &'static str {
        match self {
            Self::Variable => "variable",
            Self::Line => "line",
            Self::Type => "type",
            Self::Stack => "stack",
        }
    }

    /// How it is called.
    fn usage(self) -> &'static str {
        match self {
            Self::Variable => "variable(address, cycle [, thread] [, trace])",
            Self::Line => "line(ip [, cycle [, thread]] [, trace])",
            Self::Type => "type(variable [, trace])",
            Self::Stack => "stack(context)",
        }
    }

    /// Whether so many texts may follow so many numbers.
    fn takes(self, numbers: usize, texts: usize) -> bool {
        match self {
            Self::Variable => (2..=3).contains(&numbers) && texts <= 1,
            Self::Line => (1..=3).contains(&numbers) && texts <= 1,
            Self::Type => numbers == 0 && (1..=2).contains(&texts),
            Self::Stack => (numbers, texts) == (1, 0),
        }
    }

    fn result(self) -> DataType {
        match self {
            Self::Stack => DataType::new_list(DataType::Utf8, true),
            _ => DataType::Utf8,
        }
    }
}

/// A trace that is asked.
#[derive(Debug)]
struct AskedTrace {
    name: Arc<str>,
    lookups: Lookups,
}

/// A function that asks all traces.
#[derive(Debug)]
pub(crate) struct LookupFunction {
    looked_up: LookedUp,
    signature: Signature,
    traces: Arc<[AskedTrace]>,
    /// The traces, for those who ask them elsewhere.
    pub(crate) of: Arc<[NamedTrace]>,
}

impl PartialEq for LookupFunction {
    fn eq(&self, other: &Self) -> bool {
        self.looked_up == other.looked_up && Arc::ptr_eq(&self.traces, &other.traces)
    }
}

impl Eq for LookupFunction {}

impl Hash for LookupFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.looked_up.hash(state);
    }
}

/// The functions, about these traces.
pub(super) fn functions(of: &Arc<[NamedTrace]>) -> Vec<ScalarUDF> {
    let asked = |trace: &NamedTrace| AskedTrace {
        name: Arc::clone(&trace.name),
        lookups: Lookups::of(&trace.tables),
    };
    let traces: Arc<[AskedTrace]> = of.iter().map(asked).collect();
    let function = |looked_up| LookupFunction {
        looked_up,
        signature: Signature::variadic_any(Volatility::Stable),
        traces: Arc::clone(&traces),
        of: Arc::clone(of),
    };
    LookedUp::ALL.into_iter().map(|looked_up| ScalarUDF::from(function(looked_up))).collect()
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

/// The arguments: numbers, and texts after them.
struct Arguments {
    numbers: Vec<UInt64Array>,
    texts: Vec<StringArray>,
}

impl Arguments {
    fn of(arguments: &[ColumnarValue], rows: usize) -> Result<Self> {
        let (mut numbers, mut texts) = (Vec::new(), Vec::new());
        for argument in arguments {
            let array = argument.to_array(rows)?;
            match is_text(array.data_type()) {
                true => texts.push(cast(&array, &DataType::Utf8)?.as_string::<i32>().clone()),
                false => numbers.push(cast(&array, &DataType::UInt64)?.as_primitive::<UInt64Type>().clone()),
            }
        }
        Ok(Self { numbers, texts })
    }

    /// A number of a row, if it is there.
    fn number(&self, place: usize, row: usize) -> Option<u64> {
        let numbers = self.numbers.get(place)?;
        numbers.is_valid(row).then(|| numbers.value(row))
    }

    /// Whether all arguments of a row have a value.
    fn are_valid(&self, row: usize) -> bool {
        self.numbers.iter().all(|numbers| numbers.is_valid(row))
            && self.texts.iter().all(|texts| texts.is_valid(row))
    }

    /// The address of a row, and when it is asked about. `None` where no thread has such a number.
    fn address(&self, row: usize) -> Option<AskedAddress> {
        let thread = match self.number(2, row) {
            Some(number) => Some(ThreadId(u32::try_from(number).ok()?)),
            None => None,
        };
        Some(AskedAddress { addr: VirtAddr(self.number(0, row)?), cycle: self.number(1, row), thread })
    }
}

impl LookupFunction {
    /// The names that a trace has for some rows.
    fn names(
        &self,
        lookups: &Lookups,
        arguments: &Arguments,
        rows: &[usize],
    ) -> Result<Vec<Option<Arc<str>>>, memtap_arrow::Error> {
        if self.looked_up == LookedUp::Type {
            let names: Vec<&str> = rows.iter().map(|&row| arguments.texts[0].value(row)).collect();
            return lookups.types(&names);
        }
        let addresses: Vec<AskedAddress> = rows.iter().filter_map(|&row| arguments.address(row)).collect();
        match self.looked_up {
            LookedUp::Line => lookups.lines(&addresses),
            _ => lookups.variables(&addresses),
        }
    }

    /// What all traces that are meant say of each row, if they say the same. A number of a stack is the same in all traces: there the first
    /// one that has the stack says it.
    fn answers<T: Clone + PartialEq>(
        &self,
        arguments: &Arguments,
        rows: usize,
        ask: impl Fn(&Lookups, &[usize]) -> Result<Vec<Option<T>>, memtap_arrow::Error>,
    ) -> Result<Vec<Option<T>>> {
        let names = self.trace_names(arguments);
        // What the traces that were asked so far say.
        let mut answers: Vec<Option<Option<T>>> = vec![None; rows];
        for trace in &*self.traces {
            let is_meant = |row: &usize| names.is_none_or(|names| names.value(*row) == &*trace.name);
            let asked = (0..rows).filter(|row| self.is_asked(arguments, *row));
            let asked: Vec<usize> = asked.filter(is_meant).collect();
            if asked.is_empty() {
                continue;
            }
            let found = ask(&trace.lookups, &asked);
            let found = found.map_err(|error| DataFusionError::External(Box::new(error)))?;
            for (row, found) in asked.into_iter().zip(found) {
                let answer = &mut answers[row];
                *answer = Some(match answer.take() {
                    Some(known) if self.looked_up == LookedUp::Stack => known.or(found),
                    Some(known) if known != found => None,
                    _ => found,
                });
            }
        }
        Ok(answers.into_iter().map(Option::flatten).collect())
    }

    /// Whether something can be asked about a row: of other rows nothing is known.
    fn is_asked(&self, arguments: &Arguments, row: usize) -> bool {
        arguments.are_valid(row) && (self.looked_up == LookedUp::Type || arguments.address(row).is_some())
    }

    /// The traces' names in the rows, where they are given.
    fn trace_names<'a>(&self, arguments: &'a Arguments) -> Option<&'a StringArray> {
        arguments.texts.get(usize::from(self.looked_up == LookedUp::Type))
    }
}

impl ScalarUDFImpl for LookupFunction {
    fn name(&self) -> &str {
        self.looked_up.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let numbers = types.iter().take_while(|one| !is_text(one)).count();
        let are_texts = types[numbers..].iter().all(is_text);
        match are_texts && self.looked_up.takes(numbers, types.len() - numbers) {
            true => Ok(self.looked_up.result()),
            false => plan_err!("{} is called as {}", self.name(), self.looked_up.usage()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let arguments = Arguments::of(&args.args, rows)?;
        if self.looked_up == LookedUp::Stack {
            let numbers = |asked: &[usize]| {
                asked.iter().filter_map(|&row| arguments.number(0, row)).collect::<Vec<_>>()
            };
            let found = self.answers(&arguments, rows, |lookups, asked| lookups.stacks(&numbers(asked)))?;
            return Ok(ColumnarValue::Array(lists(&found)));
        }
        let found =
            self.answers(&arguments, rows, |lookups, asked| self.names(lookups, &arguments, asked))?;
        let names: StringArray = found.into_iter().collect();
        Ok(ColumnarValue::Array(Arc::new(names) as ArrayRef))
    }
}

/// A column of lists of functions.
fn lists(stacks: &[Option<StackFunctions>]) -> ArrayRef {
    let mut lists = ListBuilder::new(StringBuilder::new());
    for stack in stacks {
        for function in stack.iter().flat_map(|functions| &**functions) {
            lists.values().append_value(function);
        }
        lists.append(stack.is_some());
    }
    Arc::new(lists.finish())
}
