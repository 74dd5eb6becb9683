"""The inside of the memory guard: keys, the array of this process, writing, files. Reached by `faqs.recall`,
`faqs.learning`.
"""
