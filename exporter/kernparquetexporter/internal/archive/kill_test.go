package archive

import "fmt"

func load(string) error         { return fmt.Errorf("x") }
func fullDisk(string) error     { return fmt.Errorf("x") }
func readOnlyDisk(string) error { return fmt.Errorf("x") }
