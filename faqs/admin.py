"""The admin of validated answers: the audit of the memory."""

from faqs import memory_admin as memory_admin
