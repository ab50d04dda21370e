// swift-tools-version:6.2
import PackageDescription

let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .treatAllWarnings(as: .error),
    // https://github.com/swiftlang/swift-evolution/blob/main/proposals/0335-existential-any.md
    .enableUpcomingFeature("ExistentialAny"),
    // https://github.com/swiftlang/swift-evolution/blob/main/proposals/0444-member-import-visibility.md
    .enableUpcomingFeature("MemberImportVisibility"),
    // https://github.com/swiftlang/swift-evolution/blob/main/proposals/0409-access-level-on-imports.md
    .enableUpcomingFeature("InternalImportsByDefault"),
]

let package = Package(
    name: "megaton",
    products: [
        .library(name: "MegatonPipeline", targets: ["MegatonPipeline"]),
        // For the tests of loaders and caches in other packages.
        .library(name: "MegatonPipelineTesting", targets: ["MegatonPipelineTesting"]),
        .library(name: "MegatonCluster", targets: ["MegatonCluster"]),
        .executable(name: "megaton", targets: ["MegatonCLI"]),
        .executable(name: "megaton-bench", targets: ["MegatonBenchmarks"]),
    ],
    dependencies: [
        .package(url: "https://github.com/LebJe/TOMLKit", from: "0.6.0"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        // Without its traits: files are TOML here, and are read once.
        .package(url: "https://github.com/apple/swift-configuration", from: "1.4.0", traits: []),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
        .package(url: "https://github.com/apple/swift-distributed-tracing", from: "1.7.3"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.6"),
        .package(url: "https://github.com/apple/swift-system", from: "1.8.1"),
        // Without its reader of configurations: options and files are those of the program.
        .package(
            url: "https://github.com/hummingbird-project/hummingbird",
            from: "2.28.1",
            traits: ["FullFoundation"]
        ),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
        .package(url: "https://github.com/swiftcsv/SwiftCSV", from: "0.10.0"),
        .package(url: "https://github.com/swiftlang/swift-subprocess", from: "1.0.2"),
    ],
    targets: [
        // C libraries. The headers of hiredis and curl are on the default path, and pkg-config would only add flags
        // that SwiftPM refuses; libvips needs glib's paths.
        .systemLibrary(name: "CHiredis", providers: [.apt(["libhiredis-dev"])]),
        .systemLibrary(name: "CCurl", providers: [.apt(["libcurl4-openssl-dev"])]),
        .systemLibrary(name: "CDeflate", providers: [.apt(["libdeflate-dev"])]),
        .systemLibrary(name: "CMalloc"),
        .systemLibrary(name: "CTurboJPEG", providers: [.apt(["libturbojpeg0-dev"])]),
        .systemLibrary(name: "CVips", pkgConfig: "vips", providers: [.apt(["libvips-dev"])]),
        .systemLibrary(name: "CWebP", providers: [.apt(["libwebp-dev"])]),
        .systemLibrary(name: "CXXHash", providers: [.apt(["libxxhash-dev"])]),
        .systemLibrary(name: "CZlib", providers: [.apt(["zlib1g-dev"])]),
        // Messages and damage of one image, which libvips and libjpeg do not report, planes of PNGs and JPEGs, and a
        // lock for Orc.
        .target(
            name: "CCodecs",
            dependencies: ["CVips"],
            linkerSettings: [.linkedLibrary("jpeg"), .linkedLibrary("png")]
        ),
        // Scaling and colors of planes, by vectors.
        .target(name: "CPlanes"),

        // Values, errors, text and concurrency; no I/O, except to name threads.
        .target(
            name: "MegatonCore",
            dependencies: [
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: settings
        ),
        // Bytes and renditions in, bytes out; knows no network, cache or task.
        .target(
            name: "MegatonRendering",
            dependencies: ["CCodecs", "CDeflate", "CTurboJPEG", "CPlanes", "CVips", "CWebP", "MegatonCore"],
            swiftSettings: settings
        ),
        // Requests in, bytes out; knows no image and no cache store.
        .target(
            name: "MegatonHTTP",
            dependencies: ["CCurl", "MegatonCore", .product(name: "Crypto", package: "swift-crypto")],
            swiftSettings: settings
        ),
        // Nuke's public API; joins MegatonRendering and MegatonHTTP.
        .target(
            name: "MegatonPipeline",
            dependencies: [
                "MegatonCore", "MegatonHTTP", "MegatonRendering",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "SystemPackage", package: "swift-system"),
                .product(name: "Tracing", package: "swift-distributed-tracing"),
            ],
            swiftSettings: settings
        ),
        .target(
            name: "MegatonPipelineTesting",
            dependencies: ["MegatonCore", "MegatonPipeline"],
            swiftSettings: settings
        ),
        .target(
            name: "MegatonRedis",
            dependencies: [
                "CHiredis", "MegatonCore",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Metrics", package: "swift-metrics"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
            ],
            swiftSettings: settings
        ),
        .target(
            name: "MegatonCluster",
            dependencies: [
                "CXXHash", "MegatonCore", "MegatonPipeline", "MegatonRedis",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Metrics", package: "swift-metrics"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "Tracing", package: "swift-distributed-tracing"),
            ],
            // Lua scripts of Redis.
            resources: [
                .embedInCode("Queue/Scripts"), .embedInCode("RateLimiting/Scripts"),
                .embedInCode("SharedCache/Scripts"),
            ],
            swiftSettings: settings
        ),
        // HTTP to the outside: the API, health checks, metrics, access by tokens and the URLs of images. It uses the
        // cluster through MegatonCluster alone.
        .target(
            name: "MegatonServer",
            dependencies: [
                "MegatonCluster", "MegatonCore", "MegatonPipeline", "MegatonRedis",
                .product(name: "CoreMetrics", package: "swift-metrics"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "HummingbirdCore", package: "hummingbird"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ],
            // The description of the API, and the dashboard.
            resources: [.embedInCode("API/openapi.json"), .embedInCode("Dashboard/Page")],
            swiftSettings: settings
        ),
        // Options, processes, inputs and text that both programs need.
        .target(
            name: "MegatonCommandLine",
            dependencies: [
                "CMalloc", "CZlib", "MegatonCluster", "MegatonCore", "MegatonPipeline", "MegatonRedis",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Configuration", package: "swift-configuration"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "Subprocess", package: "swift-subprocess"),
                .product(name: "SwiftCSV", package: "SwiftCSV"),
                .product(name: "SystemPackage", package: "swift-system"),
                .product(name: "TOMLKit", package: "TOMLKit"),
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
            ],
            swiftSettings: settings
        ),
        .executableTarget(
            name: "MegatonCLI",
            dependencies: [
                "MegatonCluster", "MegatonCommandLine", "MegatonCore", "MegatonPipeline", "MegatonRedis",
                "MegatonServer",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "CoreMetrics", package: "swift-metrics"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            // The page of `--report`.
            resources: [.embedInCode("Report/Page")],
            swiftSettings: settings
        ),
        // Not shipped: measures parts of Megaton on one machine.
        .executableTarget(
            name: "MegatonBenchmarks",
            dependencies: [
                "MegatonCluster", "MegatonCommandLine", "MegatonCore", "MegatonPipeline", "MegatonRedis",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ],
            swiftSettings: settings
        ),

        // The coefficients of a JPEG as libjpeg reads them, which ours must be.
        .target(name: "CCoefficients", path: "Tests/CCoefficients", linkerSettings: [.linkedLibrary("jpeg")]),
        .target(
            name: "MegatonTestSupport",
            dependencies: [
                "CCoefficients", "MegatonCluster", "MegatonCore", "MegatonHTTP", "MegatonPipeline",
                "MegatonPipelineTesting", "MegatonRedis", "MegatonRendering",
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "Subprocess", package: "swift-subprocess"),
            ],
            path: "Tests/MegatonTestSupport",
            swiftSettings: settings
        ),
        // The program of scripts/chaos: real processes, faults from a seed, and a checker of their records.
        .executableTarget(
            name: "MegatonChaos",
            dependencies: [
                "MegatonCluster", "MegatonCore", "MegatonPipeline", "MegatonRedis", "MegatonTestSupport",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ],
            path: "Tests/MegatonChaos",
            resources: [.embedInCode("Scripts")],
            swiftSettings: settings
        ),
        // The program of scripts/fuzz: the targets of the tests' fuzzers under libFuzzer.
        .executableTarget(
            name: "MegatonFuzz",
            dependencies: ["MegatonTestSupport"],
            path: "Tests/MegatonFuzz",
            swiftSettings: settings
        ),
        // A program that a test kills: it fills a disk cache for as long as it lives.
        .executableTarget(
            name: "MegatonCacheWriter",
            dependencies: ["MegatonPipeline", "MegatonTestSupport"],
            path: "Tests/MegatonCacheWriter",
            swiftSettings: settings
        ),
        .testTarget(
            name: "MegatonPipelineTests",
            dependencies: [
                "CTurboJPEG", "CVips", "MegatonCacheWriter", "MegatonCore", "MegatonHTTP", "MegatonPipeline",
                "MegatonPipelineTesting", "MegatonRendering", "MegatonTestSupport",
                .product(name: "NIOCore", package: "swift-nio"),
            ],
            exclude: ["Golden"],
            swiftSettings: settings
        ),
        .testTarget(
            name: "MegatonRedisTests",
            dependencies: [
                "MegatonRedis", "MegatonTestSupport", .product(name: "NIOEmbedded", package: "swift-nio"),
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "MegatonClusterTests",
            dependencies: [
                "MegatonBenchmarks", "MegatonCluster", "MegatonCore", "MegatonHTTP", "MegatonPipelineTesting",
                "MegatonRendering", "MegatonTestSupport",
                .product(name: "InMemoryTracing", package: "swift-distributed-tracing"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "Tracing", package: "swift-distributed-tracing"),
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "MegatonServerTests",
            dependencies: [
                "MegatonCluster", "MegatonCore", "MegatonPipeline", "MegatonRedis", "MegatonServer",
                "MegatonTestSupport",
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Metrics", package: "swift-metrics"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ],
            swiftSettings: settings
        ),
        .testTarget(
            name: "MegatonEndToEndTests",
            dependencies: [
                "MegatonBenchmarks", "MegatonChaos", "MegatonCLI", "MegatonCluster", "MegatonCommandLine",
                "MegatonCore", "MegatonPipeline", "MegatonRedis", "MegatonServer", "MegatonTestSupport",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
            ],
            swiftSettings: settings
        ),
    ]
)
