// swift-tools-version:6.2
import PackageDescription

let settings: [SwiftSetting] = [.swiftLanguageMode(.v6), .treatAllWarnings(as: .error)]

// Programs that use Megaton as a dependency, as users do; scripts/examples builds and runs them. They are one package,
// so that Megaton is built once for all of them.
let package = Package(
    name: "Examples",
    dependencies: [.package(name: "megaton", path: "..")],
    targets: [
        // A cache and a loader as written for Nuke.
        .executableTarget(
            name: "Consumer",
            dependencies: [.product(name: "MegatonPipeline", package: "megaton")],
            path: "Consumer",
            swiftSettings: settings
        ),
        // Submits a batch to a cluster and iterates its outcomes.
        .executableTarget(
            name: "SubmitFromSwift",
            dependencies: [.product(name: "MegatonCluster", package: "megaton")],
            path: "SubmitFromSwift",
            swiftSettings: settings
        ),
    ]
)
