package vmm

import "errors"

// A Drain says what is waited for before memory is unmapped: a driver does not wait itself, and work that
// still uses the memory would fail.
type Drain uint8

// The values of Drain.
const (
	// A free waits for the stream that the allocation was made for, a close for the device.
	DrainDefault Drain = iota
	// Nothing: the caller has waited.
	DrainNone
	// As DrainDefault.
	DrainStream
	// A free and a close wait for the device.
	DrainDevice
)

// ErrCapturing says that a stream is being captured, which waiting for it would break.
var ErrCapturing = errors.New("the stream is being captured")

// OnlyCapturing tells whether an error is ErrCapturing and nothing else: the capture mode of the thread was put back.
func OnlyCapturing(err error) bool {
	var several interface{ Unwrap() []error }
	return errors.Is(err, ErrCapturing) && !errors.As(err, &several)
}

// WaitStream waits for the work of a stream, 0 being the driver's own. A stream that is gone means the device;
// a driver that has no such call has nothing to wait for. It fails with ErrCapturing where waiting would break a capture.
func (d *Device) WaitStream(stream uint64) error {
	if d.waitless.Load() {
		return nil
	}
	return d.relaxed(func() error {
		capturing, err := d.driver.StreamCapturing(stream)
		switch {
		case errors.Is(err, ClassCapturing) || err == nil && capturing:
			return ErrCapturing
		case gone(err):
			return d.driver.SyncDevice()
		case err != nil && !lacks(err):
			return err
		}
		err = d.driver.SyncStream(stream)
		if gone(err) {
			return d.driver.SyncDevice()
		}
		return err
	})
}

// WaitDevice waits for all work of the device. It fails with ErrCapturing where that would break a capture.
func (d *Device) WaitDevice() error {
	if d.waitless.Load() {
		return nil
	}
	return d.relaxed(d.driver.SyncDevice)
}

// gone tells whether a failure says that there is no such stream.
func gone(err error) bool {
	return errors.Is(err, ClassInvalidArgument) || errors.Is(err, ClassUnavailable)
}

// lacks tells whether a failure says that the backend has no such call: no driver was asked.
func lacks(err error) bool {
	if !errors.Is(err, ClassNotSupported) {
		return false
	}
	asked := new(Error)
	return !errors.As(err, &asked) || asked.Function == ""
}

// relaxed waits while the calling thread may make any call beside a capture, and puts its mode back.
func (d *Device) relaxed(wait func() error) error {
	unlock := lockThread()
	defer unlock()
	previous, err := d.driver.ExchangeCaptureMode(CaptureModeRelaxed)
	if err != nil && !lacks(err) {
		return err
	}
	waited := wait()
	switch {
	case lacks(waited):
		d.waitless.Store(true)
		waited = nil
	case errors.Is(waited, ClassCapturing):
		waited = ErrCapturing
	}
	if err == nil {
		_, err = d.driver.ExchangeCaptureMode(previous)
		waited = withUndo(waited, err)
	}
	return waited
}
