// Command kernhes starts engines with the shim, and asks a running collector.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

// version is set by the linker.
var version = "devel"

// A command is one subcommand.
type command struct {
	name  string
	short string
	run   func(args []string, out io.Writer) error
}

var commands = []command{
	{"table", "print where the time of each rank went, from a collector's Prometheus endpoint", table},
	{"top", "show the live page in a terminal: problems, ranks side by side", top},
	{"classify", "print the classes of kernel names read from standard input", func(args []string, out io.Writer) error {
		return classify(args, os.Stdin, out)
	}},
	{"flush", "make the archive close its open files, and list them", flush},
	{"yield", "make engines release CUPTI for a while, for another profiler", yield},
	{"window", "trace all ranks of a run for a while, where engines are traced in windows", window},
	{"perfetto", "write one step of all ranks, from the archive, as a trace that ui.perfetto.dev opens", writePerfetto},
	{"report", "report a run of the archive as a page: findings, plots, queries", analyse("report")},
	{"mcp", "serve the archive to an agent, by the Model Context Protocol", analyse("mcp")},
	{"run", "start a command with the shim in it", runCommand},
	{"sim", "simulate an engine of several ranks that sends to a collector, without a GPU", simulate},
	{"doctor", "check whether kernhes can trace on this machine, and how", doctor},
	{"selftest", "check on this machine's GPU that all kernels come with the right times, and measure what that costs", selftest},
	{"validate", "check a collector's configuration for mistakes", validate},
	{"copy", "copy the library and the Python package into a folder, for a pod", copyShim},
	{"folder", "make a folder that belongs to a user and a group, for a pod", makeFolder},
	{"version", "print the version", func(args []string, out io.Writer) error {
		if err := flags("version", "", "Prints the version of this program.").Parse(args); err != nil {
			return err
		}
		_, err := fmt.Fprintln(out, version)
		return err
	}},
}

func main() {
	err := run(os.Args[1:], os.Stdout)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.As(err, new(exitStatus)):
		var status exitStatus
		errors.As(err, &status)
		os.Exit(int(status))
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "kernhes:", err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "kernhes:", err)
		os.Exit(1)
	}
}

// errUsage is wrapped by errors about how the program was called.
var errUsage = errors.New("see kernhes --help")

// run picks the subcommand.
func run(args []string, out io.Writer) error {
	if len(args) == 0 {
		help(out)
		return nil
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		help(out)
		return nil
	case "-version", "--version":
		args[0] = "version"
	}
	for _, c := range commands {
		if c.name == args[0] {
			return c.run(args[1:], out)
		}
	}
	return fmt.Errorf("no command %q: %w", args[0], errUsage)
}

func help(out io.Writer) {
	fmt.Fprint(out, "kernhes starts engines with the tracing library, and asks a running collector where GPU time goes.\n\nUsage: kernhes COMMAND [FLAGS]\n\nCommands:\n")
	for _, c := range commands {
		fmt.Fprintf(out, "  %-8s  %s\n", c.name, c.short)
	}
	fmt.Fprint(out, "\nkernhes COMMAND --help describes a command and its flags.\n")
}

// endpointFlag says where a collector answers. All commands call it endpoint, and take an alias.
func endpointFlag(f *flag.FlagSet, standard, usage, alias string) *string {
	endpoint := f.String("endpoint", standard, usage)
	f.StringVar(endpoint, alias, standard, "alias of -endpoint")
	return endpoint
}

// flags is a set of flags with a help that says everything.
func flags(name, args, text string) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.Usage = func() {
		fmt.Fprintf(f.Output(), "Usage: kernhes %s %s\n\n%s\n", name, args, text)
		some := false
		f.VisitAll(func(*flag.Flag) { some = true })
		if some {
			fmt.Fprint(f.Output(), "\nFlags:\n")
			f.PrintDefaults()
		}
	}
	return f
}
