return require("facc").attention { mask_mod = "q >= kv" }
