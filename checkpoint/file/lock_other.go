//go:build !unix

package file

import (
	"context"
	"errors"
)

func lock(context.Context, string) (func() error, error) {
	return nil, errors.New("checkpoints in a directory need flock, which this system lacks: keep them in the target or another database")
}
