package checkpoint

import (
	"errors"
	"fmt"
)

// ErrNotFound is the error for a checkpoint that is not saved.
var ErrNotFound = errors.New("no such checkpoint")

// ErrLast is the error for removing the last checkpoint: it says where to go on, and what to decide.
func ErrLast(id int64) error {
	return fmt.Errorf("checkpoint %d is the last one: it says where the pipeline goes on", id)
}
