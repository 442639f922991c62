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
	f := flags("flush", "[FLAGS]", "Makes a collector's archive close its open Parquet files now, and lists them when they are durable.\nThe setting roll closes files as before.")
	endpoint := endpointFlag(f, "http://127.0.0.1:8989", "http::endpoint of the exporter kernparquet", "url")
	wait := f.Duration("wait", time.Minute, "give up after this long")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected %q: %w", f.Arg(0), errUsage)
	}
	body, err := ask(http.MethodPost, *endpoint+"/flush", "", *wait)
	if err != nil {
		return err
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

// ask sends a request without a body to a collector, and returns what it answers if that is OK.
// query is "" or begins with a question mark.
func ask(method, address, query string, wait time.Duration) ([]byte, error) {
	request, err := http.NewRequest(method, address+query, nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{Timeout: wait}
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 16<<20))
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %s", address, answer.Status, body)
	}
	return body, nil
}
