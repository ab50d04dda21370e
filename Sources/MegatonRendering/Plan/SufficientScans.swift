package import Foundation
import Synchronization

/// Decides while a source arrives whether its first bytes are enough for some renditions: of a progressive JPEG that is
/// shrunk they are, after its first scans.
///
/// The rendering of these bytes is that of the whole file, because planes read the same scans of both.
package struct SufficientScans: Sendable {
    /// How much of a source is needed.
    package enum Need: Sendable {
        case all
        case more
        /// The bytes so far are enough.
        case nothing
    }

    private let renditions: [Rendition]
    private let limits: RenderLimits
    private let usesPlanes: Bool

    package init(for renditions: [Rendition], _ engine: any RenderEngine, _ limits: RenderLimits) {
        self.renditions = renditions
        usesPlanes = engine.usesPlanes
        self.limits = limits
    }

    /// Whether these bytes, from the first one on, are enough.
    package func areIn(_ data: Data) -> Bool { data.withUnsafeBytes { Arrival(self).need(of: $0) == .nothing } }

    /// One source while it arrives.
    package final class Arrival: Sendable {
        private enum State {
            /// The header has not arrived.
            case open(JPEGHeaderSearch)
            case all
            /// The search for the scans of each pass.
            case scans([JPEGScanSearch])
        }

        private let scans: SufficientScans
        private let state = Mutex(State.open(JPEGHeaderSearch()))

        package init(_ scans: SufficientScans) { self.scans = scans }

        /// - Parameter bytes: the source from its first byte on, and no fewer than at the last call. They are not kept.
        package func need(of bytes: UnsafeRawBufferPointer) -> Need {
            state.withLock { state in
                if case .open(let search) = state { state = decide(bytes, search) }
                switch state {
                case .open: return .more
                case .all: return .all
                case .scans(var searches):
                    var areFound = true
                    for index in searches.indices where searches[index].find(in: bytes) == nil { areFound = false }
                    state = .scans(searches)
                    return areFound ? .nothing : .more
                }
            }
        }

        private func decide(_ bytes: UnsafeRawBufferPointer, _ search: JPEGHeaderSearch) -> State {
            var search = search
            switch search.find(in: bytes) {
            case .more: return .open(search)
            case .other: return .all
            case .end(let count): return scans.searches(Data(bytes.prefix(count))).map { .scans($0) } ?? .all
            }
        }
    }

    /// The searches for the scans that are needed; nil if the whole source is.
    private func searches(_ header: Data) -> [JPEGScanSearch]? {
        // libvips, which reads other headers, must not keep the loader's thread.
        guard usesPlanes, let parsed = JPEGHeader(header), parsed.isProgressive,
            parsed.probe.planes != nil
        else { return nil }
        do {
            let plan = try RenderPlan(checking: parsed.probe, renditions, limits)
            let needs = plan.passes.compactMap { pass in
                // Missing parts of a damaged image are rendered as far as all of it goes.
                pass.failOn == .nothing ? nil : plan.scanNeeds(pass)
            }
            return needs.count == plan.passes.count ? needs.map { JPEGScanSearch(for: $0) } : nil
        } catch {
            // The render of the whole source reports it.
            return nil
        }
    }
}
