internal import CDecoders
internal import CVips
internal import Foundation
public import Logging
import Synchronization

/// libvips, started once in a process and never stopped.
public enum VipsRuntime {
    /// The oldest libvips whose untrusted loaders can be blocked (CVE-2026-66066 is what happens without).
    private static let oldest = (8, 13)

    private static let started: Result<Void, ImagePipeline.Error> = {
        let found = (Int(vips_version(0)), Int(vips_version(1)))
        guard found >= oldest else {
            return .failure(
                ImagePipeline.Error(
                    .renderFailed,
                    "libvips \(version) cannot block untrusted loaders; 8.13 or later is needed. Update the system."
                )
            )
        }
        megaton_messages_start()
        guard megaton_vips_start("megaton") == 0 else {
            return .failure(ImagePipeline.Error(.renderFailed, "libvips did not start: \(takeErrorText())"))
        }
        isRunning.store(true, ordering: .releasing)
        return .success(())
    }()

    /// Set behind the start. To ask `started` would be to start.
    private static let isRunning = Atomic(false)

    /// Of the library that is loaded: `8.14.1`.
    public static var version: String { "\(vips_version(0)).\(vips_version(1)).\(vips_version(2))" }

    /// Starts libvips if nobody has yet.
    ///
    /// - Throws: `.renderFailed` where the library is too old.
    public static func start() throws(ImagePipeline.Error) { try started.get() }

    /// The classes of libvips behind what is off unless somebody switches it on.
    private static let switches: [AssetType: [String]] = [
        .tiff: ["VipsForeignLoadTiff"], .svg: ["VipsForeignLoadSvg"],
        .jxl: ["VipsForeignLoadJxl", "VipsForeignSaveJxl"],
    ]

    private static let open = Mutex(AssetType.supported)

    /// What this process can decode; each pipeline's `types` say what of that it does.
    public static var allowed: Set<AssetType> { open.withLock { $0 } }

    /// Switches on TIFF, SVG or JPEG XL (also for writing) for the whole process, for good: libvips' list of what is
    /// blocked is one for all its users. A pipeline decodes them only if its `types` have them too.
    ///
    /// Their codecs have had more holes than those that are on by default.
    ///
    /// - Parameter logger: told of what was switched on.
    /// - Throws: `.unsupportedFormat` for other kinds, or for what this build of libvips has no codec for;
    ///   `.renderFailed` where libvips is too old.
    public static func allow(_ types: Set<AssetType>, logger: Logger? = nil) throws(ImagePipeline.Error) {
        try start()
        for type in types.subtracting(allowed).sorted(by: { $0.description < $1.description }) {
            guard let operations = switches[type] else {
                let known = switches.keys.map(\.description).sorted().joined(separator: ", ")
                throw ImagePipeline.Error(.unsupportedFormat, "\(type) cannot be switched on; what can is \(known).")
            }
            guard operations.allSatisfy({ g_type_from_name($0) != 0 }) else {
                throw ImagePipeline.Error(.unsupportedFormat, "libvips \(version) was built here without \(type).")
            }
            for operation in operations { megaton_vips_allow(operation) }
            open.withLock { _ = $0.insert(type) }
            logger?.warning(
                "a format whose codec is less proved is switched on for this process",
                metadata: ["format": "\(type)"]
            )
        }
    }

    /// To be called last on each thread that may have used libvips: it frees what the library keeps for the thread. Where it
    /// was never started there is nothing, and it would crash.
    package static func endThread() {
        if isRunning.load(ordering: .acquiring) { vips_thread_shutdown() }
    }

    /// The last message of libvips, if no messages are collected (``VipsMessages``). The buffer is one for all threads: the
    /// text may belong to another call, so it is a hint within a message and decides nothing.
    static func takeErrorText() -> String {
        guard let buffer = vips_error_buffer_copy() else { return "no details" }
        defer { g_free(buffer) }
        let lines = String(cString: buffer).split(separator: "\n").suffix(2)
        return lines.isEmpty ? "no details" : lines.joined(separator: "; ")
    }
}
