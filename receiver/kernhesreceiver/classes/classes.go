// Package classes tells people the classes of kernel names: the face of internal/classify for the command line.
package classes

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/classify"
)

// A Table classes kernel names.
type Table struct{ rules classify.Rules }

// Builtin is the table that ships with kernhes.
func Builtin() Table { return Table{classify.Builtin} }

// Over reads a user's table and lays it over t. An error names the line and the reason.
func (t Table) Over(text string) (Table, error) {
	rules, err := classify.Parse(text)
	if err != nil {
		return t, err
	}
	return Table{rules.Over(t.rules)}, nil
}

// Version is what metrics and files say of the table.
func (t Table) Version() string { return t.rules.Version }

// maxName is the longest name that is read, in bytes: 16 times what the wire carries. What follows in its line is not looked at.
const maxName = 1 << 16

// Print reads a name a line and writes its class a line: comm, fused, compute, memcpy or spin.
func (t Table) Print(in io.Reader, out io.Writer) error {
	r, w := bufio.NewReaderSize(in, maxName), bufio.NewWriter(out)
	for {
		line, err := r.ReadSlice('\n')
		if len(line) > 0 {
			class, fused := t.rules.Class(strings.TrimRight(string(line), "\r\n"))
			if _, err := fmt.Fprintln(w, classify.Word(class, fused)); err != nil {
				return err
			}
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = r.ReadSlice('\n')
		}
		if err == io.EOF {
			return w.Flush()
		}
		if err != nil {
			return errors.Join(err, w.Flush())
		}
	}
}
