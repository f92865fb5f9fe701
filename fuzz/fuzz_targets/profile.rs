#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tracemill_fuzz::run_profile(data));
