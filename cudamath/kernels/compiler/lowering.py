"""From Numba's intermediate representation to LLVM's, in less time: `install`.

Numba counts references, for which it must know where variables end: there it loads a variable, and
stores a zero. Before each assignment it loads what was there. On a GPU nothing is counted, and
these were half of all statements and most loads and stores of LLVM's representation, of which the
optimizer keeps next to none. Here no variable ends, and nothing is loaded that is not used. Nor is
the text of each statement written, which nobody reads.
"""

from __future__ import annotations

from typing import Any


def install(lowering: Any, typed_passes: Any, errors: Any) -> None:
    """Let Numba's modules take it."""
    _end_what_is_counted(typed_passes)
    _lower_quickly(lowering, errors)


def _end_what_is_counted(typed_passes: Any) -> None:
    from numba.cuda.core import ir_utils

    legalize = typed_passes.IRLegalization.run_pass

    def run(self: Any, state: Any) -> bool:
        function = state.func_ir
        if state.targetctx.enable_nrt or state.flags.debuginfo or function.is_generator:
            return legalize(self, state)
        ir_utils.enforce_no_phis(function)
        ir_utils.enforce_no_dels(function)
        typed_passes.postproc.PostProcessor(function).run()
        return True

    typed_passes.IRLegalization.run_pass = run


def _lower_quickly(lowering: Any, errors: Any) -> None:
    """Functions of which no debug information is wanted."""
    kind, silent = lowering.CUDALower, lowering.debuginfo.DummyDIBuilder
    lower, assign_types, del_types = (
        kind.lower_block,
        lowering.ir.assign_types,
        lowering.ir.del_types,
    )

    def lower_block(self: Any, block: Any) -> None:
        if (
            self.context.enable_nrt
            or type(self.debuginfo) is not silent
            or self._disable_sroa_like_opt
            or self._loc_notify_registry
            or self.generator_info
            or lowering.config.DEBUG_JIT
        ):
            lower(self, block)
            return
        self.pre_block(block)
        statement = None
        try:
            for statement in block.body:
                self.loc = statement.loc
                if isinstance(statement, assign_types):
                    name = statement.target.name
                    store(self, self.lower_assign(self.typeof(name), statement), name)
                elif not isinstance(statement, del_types):
                    self.lower_inst(statement)
        except errors.NumbaError as error:
            where = {"inst": statement, "loc": self.loc}
            error.add_context(errors._format_msg('lowering "{inst}" at {loc}', (), where))
            raise
        self.post_block(block)

    def store(self: Any, value: Any, name: str) -> None:
        """`storevar`, without a look at what was there."""
        if name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = value
            return
        self._alloca_var(name, self.typeof(name))
        self.builder.store(value, self.getvar(name))

    kind.lower_block = lower_block
