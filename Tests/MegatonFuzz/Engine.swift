#if MEGATON_FUZZ
    import Foundation
    import MegatonTestSupport

    /// libFuzzer, called as a library (https://llvm.org/docs/LibFuzzer.html#using-libfuzzer-as-a-library): SwiftPM
    /// gives every executable its own `main`, which leaves no place for libFuzzer's.
    enum Engine {
        /// Set once, before the first input.
        nonisolated(unsafe) fileprivate static var target: (any FuzzTarget)?

        /// Runs libFuzzer and ends the process.
        static func run(_ target: any FuzzTarget, arguments: [String]) -> Never {
            Self.target = target
            var count = Int32(arguments.count + 1)
            var values = ([CommandLine.arguments[0]] + arguments).map { strdup($0) } + [nil]
            let status = values.withUnsafeMutableBufferPointer { buffer in
                var first = buffer.baseAddress
                return runDriver(&count, &first, testOneInput)
            }
            exit(status)
        }
    }

    /// - Returns: 0, as libFuzzer requires. A violated property ends the process, and libFuzzer stores the input.
    @_cdecl("LLVMFuzzerTestOneInput")
    func testOneInput(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
        do {
            try Engine.target?.check(Array(UnsafeBufferPointer(start: bytes, count: count)))
            return 0
        } catch {
            FileHandle.standardError.write(Data("\(error)\n".utf8))
            abort()
        }
    }

    @_silgen_name("LLVMFuzzerRunDriver")
    private func runDriver(
        _ count: UnsafeMutablePointer<CInt>,
        _ values: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>,
        _ testOneInput: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
    ) -> CInt
#endif
