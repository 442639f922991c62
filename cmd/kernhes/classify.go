package main

import (
	"fmt"
	"io"
	"os"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/classes"
)

const classifyHelp = `Reads names of kernels from standard input, one a line, mangled or not, and prints the class of each, one a line. A name
that stands in double quotes, as a field of CSV does, is read without them:

  comm     communicates: its time counts as communication
  fused    communicates and computes: counts as communication, and is marked
  compute  anything else
  memcpy   the name of a copy or memset, which is no kernel
  spin     waits for the host: its time counts as idle

The classes are those that a receiver gives where no manifest says otherwise, by a table of rules. A table of one's own lies
over the one that is built in, and is written like it: lines of class, path or whole (what of the name is tried), and
regular expression, separated by tabs; the first that fits wins. A fourth and a fifth column may name what must fit and
look-alikes that must not, separated by " ; "; a table that contradicts them is refused.

Example: nsys stats --report cuda_gpu_kern_sum --format csv x.nsys-rep | cut -d, -f9- | kernhes classify | sort | uniq -c`

// classify prints the classes of the names in in.
func classify(args []string, in io.Reader, out io.Writer) error {
	f := flags("classify", "[FLAGS] < NAMES", classifyHelp)
	path := f.String("table", "", "a `file` of rules that lie over the built-in ones")
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
