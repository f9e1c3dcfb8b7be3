"""The settings of torch.cuda.memory."""

from .cuda import memory


def _accelerator_setAllocatorSettings(env):
    name, value = env.split(":")
    memory.settings[name] = value == "True"
