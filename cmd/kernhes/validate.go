package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/kernhes/kernhes/internal/lint"
)

const validateText = `Checks a collector's configuration in two ways. otelcol-kernhes validate finds what the collector refuses. kernhes finds
mistakes that the collector accepts.

otelcol-kernhes must lie beside kernhes or in PATH. Exit status 1: the collector refuses the configuration, or a line begins
with "fault". Lines that begin with "warning" do not change the exit status.`

// errFaults is returned where the configuration has faults, which are printed already.
var errFaults = errors.New("validate: the configuration has faults")

// validate checks a configuration.
func validate(args []string, out io.Writer) error {
	f := flags("validate", "[FLAGS] CONFIG", validateText)
	collector := f.String("collector", "", "path of the collector (default: otelcol-kernhes beside kernhes, or in PATH)")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() != 1 {
		return fmt.Errorf("validate: the path of one configuration is required: %w", errUsage)
	}
	config := f.Arg(0)
	text, err := os.ReadFile(config)
	if err != nil {
		return fmt.Errorf("validate: %w", err)
	}
	findings, err := lint.Check(text)
	if err != nil {
		return fmt.Errorf("validate: %s: %w", config, err)
	}
	faulty := false
	said, refused, err := askCollector(*collector, config)
	switch {
	case err != nil:
		fmt.Fprintf(out, "warning: %v: the collector's own check was left out\n", err)
	case refused:
		faulty = true
		fmt.Fprintf(out, "fault: the collector refuses it: %s\n", said)
	}
	for _, finding := range findings {
		faulty = faulty || finding.Level == lint.Fault
		fmt.Fprintln(out, finding)
	}
	if faulty {
		return errFaults
	}
	if len(findings) == 0 && err == nil {
		fmt.Fprintf(out, "%s is fine\n", config)
	}
	return nil
}

// errNoCollector is why the collector was not asked.
var errNoCollector = errors.New("no otelcol-kernhes")

// askCollector has the collector validate a configuration: what it says, and whether it refuses it.
func askCollector(collector, config string) (said string, refused bool, err error) {
	path, err := findBeside(collector, "otelcol-kernhes", errNoCollector)
	if err != nil && collector == "" {
		if path, err = exec.LookPath("otelcol-kernhes"); err != nil {
			return "", false, errNoCollector
		}
	}
	if err != nil {
		return "", false, err
	}
	var answer bytes.Buffer
	command := exec.Command(path, "validate", "--config", config)
	command.Stdout, command.Stderr = &answer, &answer
	err = command.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return strings.TrimPrefix(strings.TrimSpace(answer.String()), "Error: "), true, nil
	}
	return "", false, err
}
