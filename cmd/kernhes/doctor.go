package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kernhes/kernhes/internal/faults"
)

const doctorText = `Checks whether kernhes can trace on this machine, and how: the shim, the driver, the GPUs, CUPTI with its known faults,
HES or why it is not possible, what software tracing costs, and whether the collector's socket can be reached. It asks the
driver by the program kernhes-probe, which lies beside kernhes and makes no CUDA context. Exit status 1: something
prevents tracing.`

// A finding is one line.
type finding struct {
	level string // ok, note, warn, FAIL
	what  string
	text  string
}

// A machine is what doctor looks at; tests make one up.
type machine struct {
	lookup func(string) (string, bool)
	run    func(program string, args ...string) (string, error) // stdout
	exists func(path string) bool
	read   func(path string) string // empty: cannot be read
	dial   func(network, address string) error
}

const patience = 20 * time.Second // of one program: a driver that was asleep takes seconds

func thisMachine() machine {
	return machine{
		lookup: os.LookupEnv,
		run: func(program string, args ...string) (string, error) {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			out, err := exec.CommandContext(ctx, program, args...).Output()
			return string(out), err
		},
		exists: func(path string) bool { _, err := os.Stat(path); return err == nil },
		read:   func(path string) string { b, _ := os.ReadFile(path); return string(b) },
		dial: func(network, address string) error {
			conn, err := net.DialTimeout(network, address, 2*time.Second)
			if err != nil {
				return err
			}
			return conn.Close()
		},
	}
}

var errPrevents = errors.New("something prevents tracing")

// doctor looks and tells.
func doctor(args []string, out io.Writer) error {
	f := flags("doctor", "[FLAGS] [COMMAND]", doctorText+"\nWith COMMAND, it looks for CUPTI as `kernhes run -- COMMAND` does.")
	library := f.String("lib", "", "path of libkernhes.so (default: beside kernhes)")
	probe := f.String("probe", "", "path of kernhes-probe (default: beside kernhes)")
	cupti := f.String("cupti", "", "path of libcupti (default: KERNHES_CUPTI, else the one that is found)")
	if err := f.Parse(args); err != nil {
		return err
	}
	m := thisMachine()
	var found []finding
	if path, err := findBeside(*library, "libkernhes.so", errNoLibrary); err != nil {
		found = append(found, finding{"FAIL", "shim", err.Error()})
	} else {
		found = append(found, finding{"ok", "shim", path})
	}
	if *cupti == "" {
		*cupti, _ = m.lookup("KERNHES_CUPTI")
	}
	if *cupti == "" {
		program, _ := exec.LookPath(f.Arg(0))
		*cupti = findCUPTI(program, m.lookup)
	}
	if path, err := findBeside(*probe, "kernhes-probe", errNoProbe); err != nil {
		found = append(found, finding{"FAIL", "driver", err.Error()})
	} else {
		found = append(found, m.ask(path, *cupti)...)
	}
	found = append(found, m.collector())
	failed := false
	for _, x := range found {
		fmt.Fprintf(out, "%-4s  %-9s %s\n", x.level, x.what, x.text)
		failed = failed || x.level == "FAIL"
	}
	if failed {
		return errPrevents
	}
	return nil
}

// ask tells of what the probe says.
func (m machine) ask(probe, cupti string) []finding {
	var args []string
	if cupti != "" {
		args = []string{cupti}
	}
	out, err := m.run(probe, args...)
	said := map[string][]string{}
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		said[name] = append(said[name], value)
	}
	found := m.driver(said)
	version, _ := strconv.Atoi(last(said["cupti_version"]))
	found = append(found, cuptiFindings(said, version)...)
	if err != nil {
		found = append(found, finding{"warn", "driver", fmt.Sprintf("%s failed: %v", filepath.Base(probe), err)})
	}
	if len(said["gpu"]) > 0 {
		found = append(found, m.hes(said, version), finding{"note", "software", softwareCost},
			finding{"note", "test", "kernhes selftest --mode software (windows, hes) runs kernels on this GPU, and says whether all come and what that costs"})
	}
	return found
}

const softwareCost = "KERNHES_SOFTWARE=on costs 1 to 2 µs a kernel (on an H200 18 to 38% of a decode step of 200 to 400 small kernels); it is off by default"

func last(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

func (m machine) driver(said map[string][]string) []finding {
	if why := last(said["driver_error"]); why != "" || len(said["driver_version"]) == 0 {
		return []finding{{"FAIL", "driver", "the CUDA driver does not work: " + why}}
	}
	number, _ := strconv.Atoi(last(said["driver_version"]))
	text := fmt.Sprintf("CUDA %d.%d", number/1000, number%1000/10)
	if out, err := m.run("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"); err == nil {
		first, _, _ := strings.Cut(out, "\n")
		text += ", driver " + strings.TrimSpace(first)
	}
	found := []finding{{"ok", "driver", text}}
	if len(said["gpu"]) == 0 {
		return append(found, finding{"FAIL", "GPU", "none is visible"})
	}
	for _, gpu := range said["gpu"] {
		capability, name, _ := strings.Cut(gpu, " ")
		found = append(found, finding{"ok", "GPU", name + ", compute capability " + capability})
	}
	return found
}

func cuptiFindings(said map[string][]string, version int) []finding {
	if version == 0 {
		return []finding{{"FAIL", "CUPTI", "none found: " + last(said["cupti_error"]) +
			"; an engine may still bring its own (PyTorch does), else name one by KERNHES_CUPTI"}}
	}
	found := []finding{{"ok", "CUPTI", fmt.Sprintf("version %d, %s", version, last(said["cupti"]))}}
	for _, f := range faults.Of(version, true) {
		found = append(found, finding{"warn", "CUPTI", f.Text})
	}
	return found
}

// collector tries the place where the collector listens.
func (m machine) collector() finding {
	endpoint, ok := m.lookup("KERNHES_ENDPOINT")
	if !ok || endpoint == "" {
		endpoint = "unix:///run/kernhes/kernhes.sock"
	}
	network, address, ok := strings.Cut(endpoint, "://")
	if !ok || (network != "unix" && network != "tcp") {
		return finding{"FAIL", "collector", fmt.Sprintf("KERNHES_ENDPOINT=%s: want unix:///path or tcp://host:port", endpoint)}
	}
	if err := m.dial(network, address); err != nil {
		return finding{"warn", "collector", fmt.Sprintf("%s: %v; the shim keeps trying", endpoint, err)}
	}
	return finding{"ok", "collector", endpoint}
}
