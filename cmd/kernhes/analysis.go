package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// analysisName is the program that has DuckDB in it. It is apart, since DuckDB needs cgo.
const analysisName = "kernhes-analysis"

// analyse returns a subcommand that hands its arguments to kernhes-analysis.
func analyse(name string) func(args []string, out io.Writer) error {
	return func(args []string, out io.Writer) error {
		path, err := findAnalysis()
		if err != nil {
			return err
		}
		c := exec.Command(path, append([]string{name}, args...)...)
		c.Stdin, c.Stdout, c.Stderr = os.Stdin, out, os.Stderr
		err = c.Run()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			return exitStatus(exit.ExitCode())
		}
		return err
	}
}

// findAnalysis looks beside this program, then in PATH.
func findAnalysis() (string, error) {
	if self, err := os.Executable(); err == nil {
		if path := filepath.Join(filepath.Dir(self), analysisName); executable(path) {
			return path, nil
		}
	}
	path, err := exec.LookPath(analysisName)
	if err != nil {
		return "", fmt.Errorf("no %s beside this program or in PATH: make analysis builds it", analysisName)
	}
	return path, nil
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// An exitStatus is that of a program that has said itself what was wrong.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }
