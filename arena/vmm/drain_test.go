package vmm_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arenagen/arenagen/arena/vmm"
)

func TestWaitStream(t *testing.T) {
	const (
		relax   = "exchange_capture_mode relaxed"
		restore = "exchange_capture_mode global"
		ask     = "stream_capturing 5"
		sync    = "sync_stream 5"
		device  = "sync_device"
	)
	for name, tc := range map[string]struct {
		fail      map[vmm.Op]vmm.Class
		capturing bool
		calls     []string
		err       error
	}{
		"waits":                        {nil, false, []string{relax, ask, sync, restore}, nil},
		"a captured stream":            {nil, true, []string{relax, ask, restore}, vmm.ErrCapturing},
		"another stream's capture":     {map[vmm.Op]vmm.Class{vmm.OpStreamCapturing: vmm.ClassCapturing}, false, []string{relax, ask, restore}, vmm.ErrCapturing},
		"a capture that began between": {map[vmm.Op]vmm.Class{vmm.OpSyncStream: vmm.ClassCapturing}, false, []string{relax, ask, sync, restore}, vmm.ErrCapturing},
		"gone when it is asked about":  {map[vmm.Op]vmm.Class{vmm.OpStreamCapturing: vmm.ClassInvalidArgument}, false, []string{relax, ask, device, restore}, nil},
		"gone when it is waited for":   {map[vmm.Op]vmm.Class{vmm.OpSyncStream: vmm.ClassUnavailable}, false, []string{relax, ask, sync, device, restore}, nil},
		"the device is lost":           {map[vmm.Op]vmm.Class{vmm.OpSyncStream: vmm.ClassDeviceLost}, false, []string{relax, ask, sync, restore}, vmm.ClassDeviceLost},
		"the mode cannot be changed":   {map[vmm.Op]vmm.Class{vmm.OpExchangeCaptureMode: vmm.ClassUnavailable}, false, []string{relax}, vmm.ClassUnavailable},
		"it cannot be asked about":     {map[vmm.Op]vmm.Class{vmm.OpStreamCapturing: vmm.ClassNotSupported}, false, []string{relax, ask, restore}, vmm.ClassNotSupported},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript()
			d := s.open(t)
			s.fail, s.capturing = tc.fail, tc.capturing
			err := d.WaitStream(5)
			if tc.err == nil {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, tc.err)
			}
			assert.Equal(t, tc.calls, s.calls)
		})
	}
}

func TestModeThatCannotBePutBackIsTold(t *testing.T) {
	for name, tc := range map[string]struct {
		fail      map[vmm.Op]vmm.Class
		capturing bool
	}{
		"a captured stream":        {map[vmm.Op]vmm.Class{}, true},
		"another stream's capture": {map[vmm.Op]vmm.Class{vmm.OpStreamCapturing: vmm.ClassCapturing}, false},
		"nothing to wait for":      {map[vmm.Op]vmm.Class{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript()
			d := s.open(t)
			s.fail, s.capturing, s.keepsMode = tc.fail, tc.capturing, true
			err := d.WaitStream(5)
			require.ErrorIs(t, err, vmm.ClassUnavailable)
			assert.False(t, vmm.OnlyCapturing(err))
			assert.Equal(t, name != "nothing to wait for", errors.Is(err, vmm.ErrCapturing))
		})
	}
}

func TestNothingToWaitFor(t *testing.T) {
	s := newScript()
	d := s.open(t)
	s.fail[vmm.OpSyncDevice] = vmm.ClassNotSupported
	require.ErrorIs(t, d.WaitDevice(), vmm.ClassNotSupported, "the driver was asked")
	s.waitless = true
	require.NoError(t, d.WaitDevice())
	s.calls = nil
	require.NoError(t, d.WaitDevice())
	require.NoError(t, d.WaitStream(5))
	assert.Empty(t, s.calls)
}
