package main

import (
	"fmt"
	"io"
	"os"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/classes"
)

const classifyHelp = `Reads names of kernels from standard input, one a line, mangled or not, and prints the class of each, one a line. A name
may stand in double quotes, as in CSV. Classes:

  comm     communicates: its time counts as communication
  fused    communicates and computes: counts as communication, and is marked
  compute  anything else
  memcpy   the name of a copy or memset, which is no kernel
  spin     waits for the host: its time counts as idle

A receiver gives the same classes where no manifest says otherwise. They come from a table of rules. The rules of --table
come before the built-in ones. Each line has a class, path or whole (the part of the name that is matched), and a regular
expression, separated by tabs. The first rule that matches wins. A fourth and a fifth column may list names that must match
and names that must not, separated by " ; ". A table that contradicts them is refused.

Example: nsys stats --report cuda_gpu_kern_sum --format csv x.nsys-rep | cut -d, -f9- | kernhes classify | sort | uniq -c`

// classify prints the classes of the names in in.
func classify(args []string, in io.Reader, out io.Writer) error {
	f := flags("classify", "[FLAGS] < NAMES", classifyHelp)
	path := f.String("table", "", "a `file` of rules that come before the built-in ones")
	which := f.Bool("table-version", false, "print the version of the table, and read nothing")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("classify: unexpected %q: names come from standard input: %w", f.Arg(0), errUsage)
	}
	table := classes.Builtin()
	if *path != "" {
		text, err := os.ReadFile(*path)
		if err != nil {
			return fmt.Errorf("classify: %w", err)
		}
		if table, err = table.Over(string(text)); err != nil {
			return fmt.Errorf("classify: %s: %w", *path, err)
		}
	}
	if *which {
		_, err := fmt.Fprintln(out, table.Version())
		return err
	}
	return table.Print(in, out)
}
