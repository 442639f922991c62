package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

const runText = `Starts COMMAND with libkernhes.so in it. It sets these variables:

  CUDA_INJECTION64_PATH, NVTX_INJECTION64_PATH  libkernhes.so
  KERNHES_CUDA_NEXT, KERNHES_NVTX_NEXT          the libraries named there before, which go on working
  KERNHES_CUPTI                                 libcupti of the command's Python environment or of the CUDA toolkit,
                                                for a process that has not loaded its own

With --engine vllm or sglang it also puts the Python package, kernhes-*.whl, on PYTHONPATH: the engine loads its hook from there.
It prints what it set on one line of stderr. Then COMMAND takes the place of kernhes: process id, signals, terminal and exit
code are its own.

It looks for libkernhes.so and the wheel beside kernhes, in ../lib and in ../lib/kernhes. Variables named KERNHES_... set
everything else; the flags below are short for some of them. Processes that COMMAND starts inherit the variables. The
library does nothing in processes that make no CUDA context.`

// told is what a person is told of a program that is started with variables set.
func told(program string, set []string) string {
	text := "kernhes: " + strings.Join(set, " ") + "\n"
	if filepath.Base(program) == "nsys" { // Nsight Systems sets the two injection variables anew
		text += "kernhes: nsys starts its command without kernhes; use: nsys profile kernhes run -- COMMAND\n"
	}
	return text
}

// execute replaces this process; tests put another in its place.
var execute = syscall.Exec

// runCommand starts a command with the shim in it.
func runCommand(args []string, _ io.Writer) error {
	f := flags("run", "[FLAGS] -- COMMAND [ARGUMENT...]", runText)
	library := f.String("lib", "", "path of libkernhes.so (default: beside kernhes)")
	endpoint := f.String("endpoint", "", "where the collector listens; sets KERNHES_ENDPOINT")
	software := f.Bool("software", false, "software tracing where HES is not on, at 1 to 2 µs a kernel; sets KERNHES_SOFTWARE=on")
	windows := f.Bool("windows", false, "trace only in windows that the collector orders, whatever the GPU; sets KERNHES_SOFTWARE=windows, and LD_PRELOAD to the library")
	engine := f.String("engine", "", "sets up the engine's hook: "+engineNames()+"; sets KERNHES_ENGINE")
	wheel := f.String("wheel", "", "path of the Python package, for --engine (default: beside kernhes)")
	requests := f.Bool("requests", false, "the hook also sends the requests of each step; sets KERNHES_REQUESTS=1")
	quiet := f.Bool("quiet", false, "do not print the variables that are set")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() == 0 {
		return fmt.Errorf("run: the command to start is missing: %w", errUsage)
	}
	path, err := findBeside(*library, "libkernhes.so", errNoLibrary)
	if err != nil {
		return err
	}
	program, err := exec.LookPath(f.Arg(0))
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	set := injection(path, os.LookupEnv)
	if cupti := findCUPTI(program, os.LookupEnv); cupti != "" && os.Getenv("KERNHES_CUPTI") == "" {
		set = append(set, "KERNHES_CUPTI="+cupti)
	}
	if *endpoint != "" {
		set = append(set, "KERNHES_ENDPOINT="+*endpoint)
	}
	switch {
	case *software && *windows:
		return fmt.Errorf("run: --software and --windows exclude each other: %w", errUsage)
	case *software:
		set = append(set, "KERNHES_SOFTWARE=on")
	case *windows:
		set = append(set, "KERNHES_SOFTWARE=windows", preload(path, os.LookupEnv))
	}
	hook, err := hookVariables(*engine, *wheel, *requests)
	if err != nil {
		return err
	}
	set = append(set, hook...)
	if !*quiet {
		fmt.Fprint(os.Stderr, told(program, set))
	}
	if err := execute(program, f.Args(), merge(os.Environ(), set)); err != nil {
		return fmt.Errorf("run: %s: %w", program, err)
	}
	return nil
}

// preload is LD_PRELOAD with a library before what is there: its functions must stand before those that launch graphs.
func preload(path string, lookup func(string) (string, bool)) string {
	before, _ := lookup("LD_PRELOAD")
	kept := []string{path}
	for one := range strings.FieldsFuncSeq(before, func(c rune) bool { return c == ':' || c == ' ' }) {
		if filepath.Base(one) != filepath.Base(path) { // itself, or another copy of itself
			kept = append(kept, one)
		}
	}
	return "LD_PRELOAD=" + strings.Join(kept, ":")
}

// hookVariables are the variables that the flags of engines' hooks set.
func hookVariables(engine, wheel string, requests bool) ([]string, error) {
	var set []string
	if engine != "" {
		filter, known := engines[engine]
		if !known {
			return nil, fmt.Errorf("run: engine %q: want one of %s: %w", engine, engineNames(), errUsage)
		}
		if filter != "" {
			found, err := findWheel(wheel)
			if err != nil {
				return nil, fmt.Errorf("run: %w", err)
			}
			wheel = found
		}
		set = engineVariables(engine, wheel, os.LookupEnv)
	}
	if requests {
		set = append(set, "KERNHES_REQUESTS=1")
	}
	return set, nil
}

// injection is the variables that inject a library. What is injected already is called next; a chain that is there stays.
func injection(path string, lookup func(string) (string, bool)) []string {
	var set []string
	for _, v := range []struct{ name, next string }{
		{"CUDA_INJECTION64_PATH", "KERNHES_CUDA_NEXT"},
		{"NVTX_INJECTION64_PATH", "KERNHES_NVTX_NEXT"},
	} {
		set = append(set, v.name+"="+path)
		before, _ := lookup(v.name)
		// Itself, or another copy of itself, is never called next.
		if before != "" && before != path && filepath.Base(before) != filepath.Base(path) {
			set = append(set, v.next+"="+before)
		}
	}
	return set
}

// merge gives the environment with variables set anew.
func merge(environ, set []string) []string {
	names := map[string]bool{}
	for _, pair := range set {
		name, _, _ := strings.Cut(pair, "=")
		names[name] = true
	}
	merged := make([]string, 0, len(environ)+len(set))
	for _, pair := range environ {
		if name, _, _ := strings.Cut(pair, "="); !names[name] {
			merged = append(merged, pair)
		}
	}
	return append(merged, set...)
}
