# pypto.program: _jit_side_by_side
import pypto.language as pl

@pl.program
class _jit_side_by_side:
    @pl.function(type=pl.FunctionType.AIV, level=pl.Level.AIV, role=pl.Role.SubWorker)
    def side_by_side_incore_0(left__ssa_v0: pl.Tensor[[32, 16], pl.FP32, pl.MemRef("mem_ddr_0", pl.const(0, pl.INT64), 2048)], right__ssa_v0: pl.Tensor[[32, 16], pl.FP32, pl.MemRef("mem_ddr_1", pl.const(0, pl.INT64), 2048)], both__ssa_v0: pl.InOut[pl.Tensor[[32, 32], pl.FP32, pl.MemRef("mem_ddr_2", pl.const(0, pl.INT64), 4096)]]) -> pl.Tensor[[32, 32], pl.FP32]:
        mem_vec_4: pl.Ptr = pl.tile.alloc(pl.Mem.Vec, 2048)
        mem_vec_5: pl.Ptr = pl.tile.alloc(pl.Mem.Vec, 4096)
        l__ssa_v0: pl.Tile[[32, 16], pl.FP32, pl.MemRef(mem_vec_5, pl.const(2048, pl.INT64), 4096), pl.Mem.Vec] = pl.tile.load(left__ssa_v0, [0, 0], [32, 16], [32, 16], target_memory=pl.Mem.Vec)
        r__ssa_v0: pl.Tile[[32, 16], pl.FP32, pl.MemRef(mem_vec_4, pl.const(0, pl.INT64), 2048), pl.Mem.Vec] = pl.tile.load(right__ssa_v0, [0, 0], [32, 16], [32, 16], target_memory=pl.Mem.Vec)
        wide__ssa_v0: pl.Tile[[32, 32], pl.FP32, pl.MemRef(mem_vec_5, pl.const(2048, pl.INT64), 4096), pl.Mem.Vec] = pl.tile.concat(l__ssa_v0, r__ssa_v0)
        both__store: pl.Tensor[[32, 32], pl.FP32, pl.MemRef("mem_ddr_2", pl.const(0, pl.INT64), 4096)] = pl.tile.store(wide__ssa_v0, [0, 0], both__ssa_v0)
        return both__ssa_v0
    @pl.function(type=pl.FunctionType.Orchestration, level=pl.Level.CHIP, role=pl.Role.Orchestrator)
    def side_by_side(self, left__ssa_v0: pl.Tensor[[32, 16], pl.FP32, pl.MemRef("mem_ddr_0", pl.const(0, pl.INT64), 2048)], right__ssa_v0: pl.Tensor[[32, 16], pl.FP32, pl.MemRef("mem_ddr_1", pl.const(0, pl.INT64), 2048)], both__ssa_v0: pl.InOut[pl.Tensor[[32, 32], pl.FP32, pl.MemRef("mem_ddr_2", pl.const(0, pl.INT64), 4096)]]) -> pl.Tensor[[32, 32], pl.FP32]:
        both__ssa_v1: pl.Tensor[[32, 32], pl.FP32, pl.MemRef("mem_ddr_3", pl.const(0, pl.INT64), 4096)] = self.side_by_side_incore_0(left__ssa_v0, right__ssa_v0, both__ssa_v0)
        return both__ssa_v1
