// Package kernparquetencodingextension makes Parquet of log records that hold chunks of packed steps, for exporters that
// write what an encoding gives them.
//
// Without `path`, each message is one whole Parquet file of one table: what an object store wants. With it, messages are
// for the stock file exporter, which frames each one; then a file is valid Parquet after every message:
//
//	PAR1 │ length │ footer of no rows │ length │ pages, footer of all so far │ length │ pages, footer of all so far …
//	└──── this extension makes it ────┘ └──────────────── the file exporter appends each message ───────────────────
//
// encoding.go takes chunks off log records and makes rows; growing.go knows how such a file grows and how a torn one is
// mended; files.go finds the file that a message goes to.
package kernparquetencodingextension
