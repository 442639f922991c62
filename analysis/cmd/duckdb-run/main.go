// Duckdb-run opens DuckDB on an archive and runs files of SQL, or what it reads.
package main

import (
	"bufio"
	"database/sql"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/kernhes/kernhes/analysis/duck"
)

func main() {
	var a duck.Archive
	flag.StringVar(&a.Dir, "archive", "out/archive", "folder of Parquet files")
	flag.StringVar(&a.DirB, "archive-b", "", "second archive, for ab.sql")
	flag.StringVar(&a.Request, "request", "", "request, or its trace, for request.sql (default: the one with the most steps)")
	flag.StringVar(&a.Run, "run", "", "run that k, s and c show (default: the newest)")
	flag.StringVar(&a.A, "a", "", "run or version A, for ab.sql")
	flag.StringVar(&a.B, "b", "", "run or version B, for ab.sql")
	views := flag.String("views", "views.sql", "file that defines the views (default: the one built in)")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "Usage: duckdb-run [FLAGS] [FILE...]\n\nRuns files of SQL on an archive, or what it reads. A FILE that does not exist is a query that is built in:\n  %s\n\nFlags:\n", strings.Join(duck.Names(), " "))
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(a, *views, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "duckdb-run:", err)
		os.Exit(1)
	}
}

func run(a duck.Archive, views string, files []string) error {
	db, err := duck.Open(a, views)
	if err != nil {
		return err
	}
	defer db.Close()
	for _, file := range files {
		text, err := duck.SQL(file)
		if err != nil {
			return err
		}
		t, err := duck.Query(db, text)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		fmt.Print(t)
	}
	if len(files) == 0 {
		return read(db, os.Stdin, os.Stdout)
	}
	return nil
}

// read runs statements, each ended by a line that ends with a semicolon.
func read(db *sql.DB, in io.Reader, out io.Writer) error {
	fmt.Fprint(out, "Views k, s and c of one run; all_k, all_s, all_c of all. End a statement with ;\n")
	lines := bufio.NewScanner(in)
	text := ""
	for {
		fmt.Fprint(out, map[bool]string{true: "D ", false: "· "}[text == ""])
		if !lines.Scan() {
			fmt.Fprintln(out)
			return lines.Err()
		}
		text += lines.Text() + "\n"
		if !strings.HasSuffix(strings.TrimSpace(text), ";") {
			continue
		}
		if t, err := duck.Query(db, text); err != nil {
			fmt.Fprintln(out, err)
		} else {
			fmt.Fprint(out, t)
		}
		text = ""
	}
}
