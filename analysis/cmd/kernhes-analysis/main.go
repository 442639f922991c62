// Kernhes-analysis is what `kernhes report` and `kernhes mcp` run: they need DuckDB, and with it cgo.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/kernhes/kernhes/analysis/duck"
	"github.com/kernhes/kernhes/analysis/mcp"
	"github.com/kernhes/kernhes/analysis/report"
)

// errFindings says that something went wrong in the run.
var errFindings = errors.New("findings")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errFindings):
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "kernhes:", err)
		os.Exit(2)
	}
}

func run(ctx context.Context, args []string, out, log io.Writer) error {
	if len(args) == 0 {
		return errors.New("want report or mcp")
	}
	switch args[0] {
	case "report":
		return makeReport(args[1:], out, log)
	case "mcp":
		return serve(ctx, args[1:], log)
	}
	return fmt.Errorf("%q: want report or mcp", args[0])
}

const reportText = `Usage: kernhes report [FLAGS] DIR

Turns an archive into a report: findings, tables, plots, and the query behind each. It writes OUT.html, OUT.md and
OUT.json, and prints the findings. Exit status: 0 nothing went wrong, 1 there are findings, 2 the report failed.

Flags:
`

func makeReport(args []string, out, log io.Writer) error {
	f := flag.NewFlagSet("report", flag.ContinueOnError)
	f.SetOutput(log)
	f.Usage = func() {
		fmt.Fprint(log, reportText)
		f.PrintDefaults()
	}
	name := f.String("o", "report", "name of the files, without .html, .md and .json")
	runName := f.String("run", "", "run to report (default: the newest)")
	day := f.String("day", "", "only this day, 2006-01-02, in UTC")
	from := f.String("from", "", "only from this time on, RFC 3339")
	to := f.String("to", "", "only up to this time, RFC 3339")
	quiet := f.Bool("quiet", false, "show no progress")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() != 1 {
		f.Usage()
		return errors.New("want one folder")
	}
	o := report.Options{Archive: duck.Archive{Dir: f.Arg(0), Run: *runName}}
	var err error
	if o.From, o.To, err = period(*day, *from, *to); err != nil {
		return err
	}
	if !*quiet {
		o.Progress = func(done, of int, now string) { fmt.Fprintf(log, "\r\x1b[K%d of %d: %s", done, of, now) }
	}
	r, err := report.Make(o)
	if !*quiet {
		fmt.Fprint(log, "\r\x1b[K")
	}
	if err != nil {
		return err
	}
	for suffix, write := range map[string]func(io.Writer) error{".html": r.WriteHTML, ".md": r.WriteMarkdown, ".json": r.WriteJSON} {
		if err := writeFile(*name+suffix, write); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "run %s: %d steps of %d ranks: %s.html, .md, .json\n", r.Run, r.Steps, r.Ranks, *name)
	for _, one := range r.Findings {
		fmt.Fprintf(out, "%s: %s\n", one.Kind, one.Text)
	}
	if len(r.Findings) > 0 {
		return errFindings
	}
	fmt.Fprintln(out, "Nothing went wrong.")
	return nil
}

// period reads the flags that bound a report.
func period(day, from, to string) (begin, end time.Time, err error) {
	if day != "" {
		if from != "" || to != "" {
			return begin, end, errors.New("--day: not with --from or --to")
		}
		if begin, err = time.Parse(time.DateOnly, day); err != nil {
			return begin, end, fmt.Errorf("--day: %w", err)
		}
		return begin, begin.AddDate(0, 0, 1), nil
	}
	for _, one := range []struct {
		flag, text string
		to         *time.Time
	}{{"from", from, &begin}, {"to", to, &end}} {
		if one.text == "" {
			continue
		}
		if *one.to, err = time.Parse(time.RFC3339, one.text); err != nil {
			return begin, end, fmt.Errorf("--%s: %w", one.flag, err)
		}
	}
	return begin, end, nil
}

// writeFile replaces a file at once: a reader sees the old one or the new one.
func writeFile(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".report-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	if err := errors.Join(write(f), f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

const mcpText = `Usage: kernhes mcp [FLAGS] DIR

Serves an archive to an agent by the Model Context Protocol, over standard input and output. All tools only read.

Flags:
`

func serve(ctx context.Context, args []string, log io.Writer) error {
	f := flag.NewFlagSet("mcp", flag.ContinueOnError)
	f.SetOutput(log)
	f.Usage = func() {
		fmt.Fprint(log, mcpText)
		f.PrintDefaults()
	}
	rows := f.Int("max-rows", 200, "rows of an answer, at most")
	limit := f.Duration("timeout", 30*time.Second, "how long a query may take")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() != 1 {
		f.Usage()
		return errors.New("want one folder")
	}
	return mcp.Serve(ctx, mcp.Options{Dir: f.Arg(0), MaxRows: *rows, Timeout: *limit})
}
