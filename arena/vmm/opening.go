package vmm

import (
	"errors"
	"fmt"
	"io"
	"slices"
)

// An Opening is what opening a device did that can be taken back. The zero Opening did nothing.
type Opening struct {
	undo []func() error
}

// Did notes how something that was done is taken back.
func (o *Opening) Did(undo func() error) { o.undo = append(o.undo, undo) }

// Either does something, or, where that fails with one of some classes, takes back what it did and does something else.
func (o *Opening) Either(first, instead func() error, on ...Class) error {
	before := len(o.undo)
	err := first()
	if err == nil || !slices.ContainsFunc(on, func(c Class) bool { return errors.Is(err, c) }) {
		return err
	}
	if undone := o.back(before); undone != nil {
		return withUndo(err, undone)
	}
	return instead()
}

// Failed takes back what was done, and gives the failure with what failed in that.
func (o *Opening) Failed(err error) error { return withUndo(err, o.Close()) }

// Close takes back what was done, in reverse. Done again, it does nothing.
func (o *Opening) Close() error { return o.back(0) }

func (o *Opening) back(to int) error {
	var failed error
	for len(o.undo) > to {
		last := len(o.undo) - 1
		undo := o.undo[last]
		o.undo = o.undo[:last]
		failed = withUndo(failed, undo())
	}
	return failed
}

// Choose takes one of the items that a driver's function gave, by its place among those for which where is true; nil is
// true for all.
func Choose[T uint64 | int32](into *T, backend, function string, items []uint64, place int, where func(item uint64) (bool, error)) error {
	kept := items
	if where != nil {
		kept = nil
		for _, item := range items {
			is, err := where(item)
			if err != nil {
				return err
			}
			if is {
				kept = append(kept, item)
			}
		}
	}
	if place < 0 || place >= len(kept) {
		return refusal(backend, Error{Op: OpOpen}, ClassNoDevice,
			fmt.Sprintf("%s gave %d, of which %d can be used; expected more than %d", function, len(items), len(kept), place))
	}
	*into = T(kept[place])
	return nil
}

// Close gives back what opening the device took, with a driver that takes anything for it. No arena may be on the device, and
// none can be made on it any more.
func (d *Device) Close() error {
	if closer, ok := d.driver.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}
