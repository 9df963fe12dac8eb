//! The output formats of rows.

use std::fs::Permissions;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::csv;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::ipc::writer::FileWriter;
use datafusion::arrow::json::ArrayWriter;
use datafusion::arrow::util::pretty::pretty_format_batches_with_schema;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;
use tempfile::NamedTempFile;

/// A form of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// For people
    Table,
    /// An array of objects
    Json,
    /// Comma-separated values, with the names of the columns
    Csv,
    /// An Arrow file (IPC)
    Arrow,
    /// A Parquet file, with zstd
    Parquet,
}

/// What a command line says of the rows.
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// Output format
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "table")]
    pub format: OutputFormat,
    /// The file to write; needed for parquet
    #[arg(short = 'o', long = "output", value_name = "OUT")]
    pub path: Option<PathBuf>,
    /// Replace the output if it exists
    #[arg(long)]
    force: bool,
}

impl OutputArgs {
    /// Says what can't be, before anything is read for it.
    ///
    /// # Errors
    /// Where a binary form would go to a terminal.
    pub fn check(&self) -> Result<()> {
        if self.format == OutputFormat::Parquet && self.path.is_none() {
            bail!("parquet is a binary format; name a file with -o");
        }
        Ok(())
    }

    /// Begins the output.
    ///
    /// # Errors
    /// Where there is a file of that name, or none can be made.
    pub fn create(&self) -> Result<Writer> {
        Writer::create(self.format, self.path.as_deref(), self.force)
    }
}

/// Where rows go: a file that is there whole or not at all, or standard output.
enum Target {
    File(BufWriter<NamedTempFile>),
    Stdout(BufWriter<io::Stdout>),
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Stdout(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.flush(),
            Self::Stdout(out) => out.flush(),
        }
    }
}

/// A file that gets its name when it is whole, with the rights that any new file has.
fn temporary(dir: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new().prefix(".memtap-").permissions(Permissions::from_mode(0o666)).tempfile_in(dir)
}

/// How Parquet files are written: clocks by their differences, addresses as they are, all else, names above all, as dictionaries; and
/// zstd makes all of it small.
fn parquet_properties(schema: &SchemaRef) -> WriterProperties {
    let zstd = Compression::ZSTD(ZstdLevel::default());
    let mut properties = WriterProperties::builder().set_compression(zstd);
    for field in schema.fields() {
        let encoding = match (field.data_type(), field.name().as_str()) {
            (DataType::UInt64, "cycle" | "order") => Encoding::DELTA_BINARY_PACKED,
            // Byte stream split takes 7 to 15 % less on some traces and 11 % more on others, and Spark can't read it of unsigned numbers.
            (DataType::UInt64, "addr" | "offset") => Encoding::PLAIN,
            _ => continue,
        };
        let column = ColumnPath::new(vec![field.name().clone()]);
        properties = properties
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_encoding(column, encoding);
    }
    properties.build()
}

/// What writes one form.
enum Form {
    /// Nothing was written yet.
    New(Target),
    Table(Target, SchemaRef, Vec<RecordBatch>),
    Json(ArrayWriter<Target>),
    Csv(Box<csv::Writer<Target>>),
    Arrow(Box<FileWriter<Target>>),
    Parquet(Box<ArrowWriter<Target>>),
}

/// Writes the rows of one query.
pub struct Writer {
    format: OutputFormat,
    form: Option<Form>,
    path: Option<PathBuf>,
    is_forced: bool,
}

impl Writer {
    /// Begins; a file that exists is replaced only by force.
    ///
    /// # Errors
    /// Where there is a file of that name, or none can be made.
    pub fn create(format: OutputFormat, path: Option<&Path>, is_forced: bool) -> Result<Self> {
        let target = match path {
            None => {
                if format == OutputFormat::Arrow && io::stdout().is_terminal() {
                    bail!("arrow is a binary format; name a file with -o");
                }
                Target::Stdout(BufWriter::new(io::stdout()))
            }
            Some(path) => {
                let shown = || format!("{}: can't be written", path.display());
                if path.is_dir() {
                    bail!("{}: is a directory; name a file", path.display());
                }
                if path.exists() && !is_forced {
                    bail!("{}: already exists; --force replaces it", path.display());
                }
                let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
                Target::File(BufWriter::new(temporary(dir).with_context(shown)?))
            }
        };
        Ok(Self { format, form: Some(Form::New(target)), path: path.map(Path::to_owned), is_forced })
    }

    /// The columns are known.
    ///
    /// # Errors
    /// Where they can't be written.
    pub fn begin(&mut self, schema: SchemaRef) -> Result<()> {
        let Some(Form::New(target)) = self.form.take() else { bail!("rows are written once") };
        self.form = Some(match self.format {
            OutputFormat::Table => Form::Table(target, schema, Vec::new()),
            OutputFormat::Json => Form::Json(ArrayWriter::new(target)),
            OutputFormat::Csv => {
                Form::Csv(Box::new(csv::WriterBuilder::new().with_header(true).build(target)))
            }
            OutputFormat::Arrow => Form::Arrow(Box::new(FileWriter::try_new(target, &schema)?)),
            OutputFormat::Parquet => {
                let properties = parquet_properties(&schema);
                Form::Parquet(Box::new(ArrowWriter::try_new(target, schema, Some(properties))?))
            }
        });
        Ok(())
    }

    /// Some rows.
    ///
    /// # Errors
    /// Where they can't be written.
    pub fn rows(&mut self, batch: &RecordBatch) -> Result<()> {
        match &mut self.form {
            Some(Form::Table(_, _, batches)) => batches.push(batch.clone()),
            Some(Form::Json(writer)) => writer.write(batch)?,
            Some(Form::Csv(writer)) => writer.write(batch)?,
            Some(Form::Arrow(writer)) => writer.write(batch)?,
            Some(Form::Parquet(writer)) => writer.write(batch)?,
            Some(Form::New(_)) | None => bail!("rows came before their columns"),
        }
        Ok(())
    }

    /// All rows are there.
    ///
    /// # Errors
    /// Where they can't be written.
    pub fn finish(mut self) -> Result<()> {
        let Some(form) = self.form.take() else { return Ok(()) };
        let target = match form {
            Form::New(target) => target,
            Form::Table(mut target, schema, batches) => {
                let text = pretty_format_batches_with_schema(schema, &batches)?;
                writeln!(target, "{text}")?;
                target
            }
            Form::Json(mut writer) => {
                writer.finish()?;
                let mut target = writer.into_inner();
                writeln!(target)?;
                target
            }
            Form::Csv(writer) => writer.into_inner(),
            Form::Arrow(mut writer) => {
                writer.finish()?;
                writer.into_inner()?
            }
            Form::Parquet(writer) => writer.into_inner()?,
        };
        self.keep(target)
    }

    fn keep(&self, mut target: Target) -> Result<()> {
        // Who reads no further (head) is no failure.
        if let Err(error) = target.flush()
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            return Err(error).context("the output can't be written");
        }
        if let (Target::File(file), Some(path)) = (target, &self.path) {
            let shown = || format!("{}: can't be written", path.display());
            let file = file.into_inner().map_err(|error| error.into_error()).with_context(shown)?;
            let kept = match self.is_forced {
                true => file.persist(path),
                false => file.persist_noclobber(path),
            };
            kept.map_err(|error| error.error).with_context(shown)?;
        }
        Ok(())
    }
}
