package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// flush has an archive close its open files, and lists them.
func flush(args []string, out io.Writer) error {
	f := flags("flush", "[FLAGS]", "Has a collector's archive close its open Parquet files, and lists them once they are durable.\nThe clock that closes them by itself goes on.")
	endpoint := f.String("endpoint", "http://127.0.0.1:8989", "of the exporter kernparquet")
	wait := f.Duration("wait", time.Minute, "give up after this long")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected %q: %w", f.Arg(0), errUsage)
	}
	client := http.Client{Timeout: *wait}
	answer, err := client.Post(*endpoint+"/flush", "", nil)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 16<<20))
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s/flush: %s: %s", *endpoint, answer.Status, body)
	}
	var closed struct {
		Files []struct {
			Name string
			Rows int64
		}
	}
	if err := json.Unmarshal(body, &closed); err != nil {
		return fmt.Errorf("%s/flush: %w", *endpoint, err)
	}
	for _, file := range closed.Files {
		if _, err := fmt.Fprintf(out, "%s  %d rows\n", file.Name, file.Rows); err != nil {
			return err
		}
	}
	return nil
}
