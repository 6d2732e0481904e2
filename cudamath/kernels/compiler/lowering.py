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
    _call_quickly(lowering)


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


def _call_quickly(lowering: Any) -> None:
    """Calls, without the text of what is called, which was written for a log."""
    kind, types, error = lowering.CUDALower, lowering.types, lowering.LoweringError
    lower, lower_normal = kind.lower_call, kind._lower_call_normal
    otherwise = (
        types.ObjModeDispatcher,
        types.ExternalFunction,
        types.ExternalFunctionPointer,
        types.RecursiveCall,
    )

    def lower_call(self: Any, kept: Any, expression: Any) -> Any:
        signature, function = self.fndesc.calltypes[expression], self.typeof(expression.func.name)
        if isinstance(signature.return_type, types.Phantom) or isinstance(function, otherwise):
            return lower(self, kept, expression)
        result = self._lower_call_normal(function, expression, signature)
        if result is None:
            if signature.return_type != types.void:
                told = "non-void function returns None from implementation"
                raise error(msg=told, loc=self.loc)
            result = self.context.get_dummy_value()
        return self.context.cast(self.builder, result, signature.return_type, kept)

    def lower_call_normal(self: Any, function: Any, expression: Any, signature: Any) -> Any:
        if expression.target is not None or isinstance(function, types.ObjModeDispatcher):
            return lower_normal(self, function, expression, signature)
        arguments = self.fold_call_args(
            function, signature, expression.args, expression.vararg, expression.kws
        )
        implementation = self.context.get_function(function, signature)
        if signature.recvr:
            arguments = [self.loadvar(expression.func.name), *arguments]
        return implementation(self.builder, arguments, self.loc)

    kind.lower_call, kind._lower_call_normal = lower_call, lower_call_normal
