# pypto.program: _jit_side_by_side
import pypto.language as pl

@pl.program
class _jit_side_by_side:
    @pl.function(type=pl.FunctionType.Orchestration, level=pl.Level.CHIP, role=pl.Role.Orchestrator)
    def side_by_side(self, left: pl.Tensor[[32, 16], pl.FP32], right: pl.Tensor[[32, 16], pl.FP32], both: pl.Out[pl.Tensor[[32, 32], pl.FP32]]) -> pl.Tensor[[32, 32], pl.FP32]:
        with pl.at(level=pl.Level.CORE_GROUP):
            l: pl.Tile[[32, 16], pl.FP32, pl.Mem.Vec] = pl.tile.load(left, [0, 0], [32, 16], [32, 16], target_memory=pl.Mem.Vec)
            r: pl.Tile[[32, 16], pl.FP32, pl.Mem.Vec] = pl.tile.load(right, [0, 0], [32, 16], [32, 16], target_memory=pl.Mem.Vec)
            wide: pl.Tile[[32, 32], pl.FP32, pl.Mem.Vec] = pl.tile.concat(l, r)
            pl.tile.store(wide, [0, 0], both)
        return both
